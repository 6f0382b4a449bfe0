package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

var profileFields = command.NewFields("profile",
	command.Value(command.SafeInt("").Required()),
	command.SafeInt("slowms"), command.Number("sampleRate"), command.Any("filter"))

// profile reads and sets the profiler's level for the database, and the
// server's slowms, sampleRate and filter.
func (n *Node) profile() *command.Command {
	return &command.Command{
		Name: "profile", Flags: command.Unprofiled, Fields: profileFields, Run: n.runProfile,
		Help: "enable or disable performance profiling\n{ profile : <n> }\n0=off 1=log slow ops 2=log all\n-1 to get current values\n" +
			"http://docs.mongodb.org/manual/reference/command/profile/#dbcmd.profile",
	}
}

const filterNote = "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query log lines."

func (n *Node) runProfile(ctx context.Context, op *command.Op) error {
	a, p := &op.Args, op.Dispatcher.Profiler
	was := p.Settings(op.DB)
	slow, rate := p.SlowMillis(), p.SampleRate()
	next, err := profileFilter(was, a.Value("filter"))
	if err != nil {
		return err
	}
	newRate := rate
	if a.Has("sampleRate") {
		newRate = a.Double("sampleRate")
		if !(newRate >= 0 && newRate <= 1) {
			return mongoerr.New(mongoerr.BadValue, "'sampleRate' must be between 0.0 and 1.0 inclusive")
		}
	}
	if level := a.Int("profile"); level >= 0 && level <= 2 {
		next.Level = level
	}
	if next.Level > 0 && n.Catalog != nil {
		// As in mongod, the collection exists from now on, and not only from the first
		// entry.
		if _, err := n.profileCollection(ctx, op.DB); err != nil {
			return err
		}
	}
	p.SetSlow(a.Int64Or("slowms", slow), newRate)
	p.SetSettings(op.DB, next)
	op.Reply.Int32("was", int32(was.Level)).Int("slowms", slow).Double("sampleRate", rate)
	if was.FilterSource != nil {
		op.Reply.Doc("filter", was.FilterSource).String("note", filterNote)
	}
	return nil
}

// profileFilter returns s with the filter that the client gave: a document, or
// "unset".
func profileFilter(s command.ProfileSettings, v bson.Value) (command.ProfileSettings, error) {
	switch {
	case v.IsMissing():
	case v.Type == bson.TypeString && v.Str() == "unset":
		s.Filter, s.FilterSource = nil, nil
	case v.Type == bson.TypeDocument:
		f, err := match.Parse(v.Doc().Clone(), &match.Options{})
		if err != nil {
			return s, err
		}
		s.FilterSource = match.Serialize(f.Root())
		s.Filter = func(entry bson.Doc) bool { ok, err := f.Match(entry); return ok && err == nil }
	default:
		return s, mongoerr.New(mongoerr.BadValue, "Expected an object, or the string 'unset'.")
	}
	return s, nil
}
