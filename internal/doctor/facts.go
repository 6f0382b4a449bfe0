package doctor

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// facts is what the checks look at: the replies of servers.
type facts struct {
	o   *Options
	now time.Time
	// servers are all that were asked, or should have been: routers, standalones, members.
	servers []*server
	sets    []*set
	cluster *cluster // nil if there is none
	// collections are those of clients, each once, as its primary or the router sees it.
	collections []*collection
	unseen      []unseen // guarded by mu while several servers are asked
	mu          sync.Mutex
}

// server is one process.
type server struct {
	address string
	set     string // the set it is a member of, or ""
	router  bool
	conn    Server // nil if it was not reached
	err     error  // why
	// unanswered is how many questions it has not answered in time.
	unanswered int
	// hello and status are the replies of hello and serverStatus.
	hello, status bson.Doc
	// ahead is by how much its clock is ahead of this process's, as exactly as the time allows
	// that the question took.
	ahead, within time.Duration
	// warnings are what the server has logged as it started.
	warnings []string
}

// set is a replica set.
type set struct {
	name    string
	members []*server
	// status and config are what replSetGetStatus and replSetGetConfig of its primary say, or
	// of another member if there is none; nil if nobody does.
	status, config bson.Doc
}

// cluster is a sharded cluster, as a router sees it.
type cluster struct {
	// shards are the documents of config.shards, tags those of config.tags, settings the one of
	// the balancer.
	shards, tags []bson.Doc
	settings     bson.Doc
	balancer     bson.Doc            // balancerStatus
	spread       map[string]bson.Doc // balancerCollectionStatus by namespace
	drains       map[string]bson.Doc // shardDrainingStatus by shard
}

// collection is what is known of a collection.
type collection struct {
	ns      string
	rules   []bson.Doc // $expiryStats
	indexes []indexUse
}

// indexUse is an index and its use on all servers that have it.
type indexUse struct {
	name string
	spec bson.Doc
	ops  int64
	// since is when the latest of the servers began to count.
	since time.Time
}

// unseen is something that could not be asked.
type unseen struct {
	where, what string
	err         error
}

// said is how an error is told: what a server says, with its code.
func said(err error) string {
	var e *mongoerr.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("%s (%d)", e.Message, e.Code)
	}
	return err.Error()
}

// at returns a field of nested documents; Missing where there is none.
func at(d bson.Doc, path ...string) bson.Value {
	v := bson.Document(d)
	for _, name := range path {
		if v.Type != bson.TypeDocument || len(v.Data) == 0 {
			return bson.Value{}
		}
		v = v.Doc().Lookup(name)
	}
	return v
}

// text is a string field, "" where it is none.
func text(d bson.Doc, path ...string) string {
	if v := at(d, path...); v.Type == bson.TypeString {
		return v.Str()
	}
	return ""
}

// number is a number field, 0 where it is none.
func number(d bson.Doc, path ...string) float64 {
	if v := at(d, path...); v.IsNumber() {
		return bson.ToDouble(v)
	}
	return 0
}

// moment is a date field; ok is false where it is none.
func moment(d bson.Doc, path ...string) (t time.Time, ok bool) {
	v := at(d, path...)
	if v.Type != bson.TypeDate {
		return t, false
	}
	return time.UnixMilli(v.Date()), true
}

// truth reports whether a field is true, or a number other than 0.
func truth(d bson.Doc, path ...string) bool { v := at(d, path...); return !v.IsMissing() && v.Truthy() }

// elements are the documents of an array field.
func elements(d bson.Doc, path ...string) (all []bson.Doc) {
	v := at(d, path...)
	if v.Type != bson.TypeArray {
		return nil
	}
	for e := range v.Doc().Values() {
		if e.Type == bson.TypeDocument {
			all = append(all, e.Doc())
		}
	}
	return all
}

// texts are the strings of an array field.
func texts(d bson.Doc, path ...string) (all []string) {
	v := at(d, path...)
	if v.Type != bson.TypeArray {
		return nil
	}
	for e := range v.Doc().Values() {
		if e.Type == bson.TypeString {
			all = append(all, e.Str())
		}
	}
	return all
}

// codeOf is the code of a server's error.
func codeOf(err error) (mongoerr.Code, bool) {
	var e *mongoerr.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.Code, true
}
