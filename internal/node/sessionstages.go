package node

import (
	"bytes"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// sessionsNamespace is where MongoDB keeps sessions, and the only place where
// $listSessions may be asked for them.
const sessionsNamespace = "config.system.sessions"

var (
	sessionUserFields  = command.NewFields("users", command.String("user").Required(), command.String("db").Required())
	sessionStageFields = map[string]*command.Fields{}
)

func init() {
	for _, stage := range []string{"$listLocalSessions", "$listSessions"} {
		sessionStageFields[stage] = command.NewFields(stage,
			command.ArrayOf("users", command.Struct("", sessionUserFields)), command.Bool("allUsers"))
	}
}

// listSessions lists the logical sessions of the asking user, of the users
// named, or of all. A session is in memory only, so both stages see the same.
// (Manual: $listLocalSessions, $listSessions.)
func (w *world) listSessions(stage string, arg bson.Doc) (pipeline.Iterator, error) {
	if stage == "$listSessions" && w.ns.String() != sessionsNamespace {
		return nil, mongoerr.New(mongoerr.InvalidNamespace, "$listSessions may only be run against %s", sessionsNamespace)
	}
	return ListSessions(w.op, stage, arg)
}

// ListSessions lists the sessions of the process as the stage asks.
func ListSessions(op *command.Op, stage string, arg bson.Doc) (*pipeline.List, error) {
	a, err := command.ParseDoc(sessionStageFields[stage], withoutNullUsers(arg))
	if err != nil {
		return nil, err
	}
	named := a.Structs("users")
	all := a.Bool("allUsers")
	if all && len(named) > 0 {
		return nil, mongoerr.New(mongoerr.UnsupportedFormat, "%s may not specify {allUsers:true} and {users:[...]} at the same time", stage)
	}
	users := map[[32]byte]bool{op.Client.Owner(): true}
	if len(named) > 0 {
		clear(users)
		for _, u := range named {
			users[command.UserDigest(u.Str("user"), u.Str("db"))] = true
		}
	}
	l := &pipeline.List{}
	sessions := op.Dispatcher.Sessions.All()
	slices.SortFunc(sessions, func(a, b *command.Session) int { return bytes.Compare(a.ID.ID[:], b.ID.ID[:]) })
	for _, s := range sessions {
		if all || users[s.ID.UID] {
			l.Docs = append(l.Docs, new(bson.Builder).Doc("_id", s.ID.Document()).Date("lastUse", s.LastUse().UnixMilli()).Finish())
		}
	}
	return l, nil
}

// withoutNullUsers takes nulls out of the array of users, where they count as
// absent.
func withoutNullUsers(arg bson.Doc) bson.Doc {
	users := arg.Lookup("users")
	if users.Type != bson.TypeArray {
		return arg
	}
	b := new(bson.Builder)
	for it := arg.Iter(); it.Next(); {
		if it.Key != "users" || it.Value.Type != bson.TypeArray {
			b.Value(it.Key, it.Value)
			continue
		}
		var there []bson.Value
		for v := range it.Value.Doc().Values() {
			if !v.IsNullish() {
				there = append(there, v)
			}
		}
		b.Value(it.Key, bson.Array(there...))
	}
	return b.Finish()
}
