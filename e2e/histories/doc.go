// Package histories has operations of clients that note what they did and were told, while
// servers are disturbed: on a replica set (e2e/nemesis) and through routers (e2e/cluster). The
// checkers of internal/sim judge the histories.
package histories
