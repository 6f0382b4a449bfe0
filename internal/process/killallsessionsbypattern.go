package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var patternFields = command.NewFields("killAllSessionsByPattern",
	command.Struct("lsid", command.NewFields("lsid", command.UUID("id").Required(), command.Digest("uid").Required())),
	command.Digest("uid"),
	command.ArrayOf("users", command.Struct("", userFields)),
	command.ArrayOf("roles", command.Struct("", command.NewFields("roles", command.String("role").Required(), command.String("db").Required()))),
)

var killByPatternFields = command.NewFields("killAllSessionsByPattern",
	command.Value(command.ArrayOf("", command.Struct("", patternFields)).Required())).Lenient()

// killAllSessionsByPattern ends the operations and cursors of all sessions that match
// one of the patterns or, without patterns, of all sessions.
func (p *Process) killAllSessionsByPattern() *command.Command {
	return &command.Command{
		Name: "killAllSessionsByPattern", Fields: killByPatternFields, Help: "kill logical sessions by pattern",
		Run: func(_ context.Context, op *command.Op) error {
			patterns := op.Args.Structs("killAllSessionsByPattern")
			for i := range patterns {
				if (patterns[i].Has("users") || patterns[i].Has("roles")) && !op.MayImpersonate() {
					return mongoerr.New(mongoerr.Unauthorized, "Not authorized to impersonate in killAllSessionsByPattern")
				}
			}
			op.Dispatcher.KillSessions(op, func(s command.SessionID) bool {
				for i := range patterns {
					if matchesPattern(&patterns[i], s) {
						return true
					}
				}
				return len(patterns) == 0
			})
			return nil
		},
	}
}

func matchesPattern(p *command.Args, s command.SessionID) bool {
	if lsid, ok := p.Struct("lsid"); ok {
		id, _ := lsid.UUID("id")
		return id == s.ID && isDigest(lsid.Value("uid"), s.UID)
	}
	return !p.Has("uid") || isDigest(p.Value("uid"), s.UID)
}

func isDigest(v bson.Value, uid [32]byte) bool {
	_, content := v.Binary()
	return string(content) == string(uid[:])
}
