package exec

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// describeSearch writes the rings that were searched, and what the scan of each
// did, as stages below.
func (s *geoNear) describeSearch(b *bson.Builder) {
	b.OpenArray("searchIntervals")
	for i, at := range s.searched {
		b.OpenDoc(bson.Index(i)).Double("minDistance", at.inner).Double("maxDistance", at.outer).Bool("maxInclusive", at.last).
			Int("nBuffered", at.found).Int("nReturned", at.given).Close()
	}
	b.Close().OpenArray("inputStages")
	for i, at := range s.searched {
		st := at.scan
		if s.scan != nil && i == len(s.searched)-1 {
			st = s.scan.stats
		}
		scan, ok := st.Node.(*plan.IndexScan)
		if !ok {
			continue
		}
		fetch := &plan.Fetch{Input: scan}
		below := &indexScan{stats: st}
		d := plan.Explain(fetch, countersOf(&fetchedRing{Stats{
			Node: fetch, Works: st.Works, Advanced: st.Advanced, NeedTime: st.NeedTime, EOF: st.EOF, DocsExamined: st.Advanced,
		}, below}), explainRoom(b))
		b.Doc(bson.Index(i), d)
	}
	b.Close()
}

// fetchedRing shows what a search did with the rows of a ring's scan as the stage
// that reads their documents.
type fetchedRing struct {
	stats Stats
	*indexScan
}

func (s *fetchedRing) Stats() *Stats   { return &s.stats }
func (s *fetchedRing) Inputs() []Stage { return []Stage{s.indexScan} }
