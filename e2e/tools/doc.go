// Package tools asks a server what mongodump, mongorestore, mongoexport,
// mongoimport, mongostat and mongotop ask of it, in their words. The tools
// themselves are in no registry; what they send was read in their source and
// seen in a server's log. It has tests only.
package tools
