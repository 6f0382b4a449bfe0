package pipeline

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Server is a stage that reads the server's own state, such as $collStats.
// The World checks the argument further when it opens it.
type Server struct {
	name string
	Arg  bson.Value
}

// databaseStages are the Server stages that need no collection.
var databaseStages = map[string]bool{"$currentOp": true, "$listLocalSessions": true, "$listSessions": false}

// notObject are the codes for arguments that are no object.
var notObject = map[string]mongoerr.Code{
	"$indexStats": 28803, "$planCacheStats": mongoerr.FailedToParse,
}

func parseServer(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		if p.name == "$collStats" {
			return nil, mongoerr.New(5447000, "$collStats must take a nested object but found: $collStats: %s", arg)
		}
		code, ok := notObject[p.name]
		if !ok {
			code = mongoerr.TypeMismatch
		}
		return nil, mongoerr.New(code, "The %s stage specification must be an object, found %s", p.name, arg.Type)
	}
	if p.index == 0 && !p.Collectionless && databaseStages[p.name] {
		return nil, mongoerr.New(mongoerr.InvalidNamespace, "%s must be run against the 'admin' database with {aggregate: 1}", p.name)
	}
	if p.index == 0 && p.Collectionless && !databaseStages[p.name] && p.name != "$listSessions" {
		return nil, mongoerr.New(mongoerr.InvalidNamespace, "{aggregate: 1} is not valid for '%s'; a collection is required.", p.name)
	}
	if p.name == "$currentOp" && p.DB != "admin" {
		return nil, mongoerr.New(mongoerr.InvalidNamespace, "$currentOp must be run against the 'admin' database with {aggregate: 1}")
	}
	if p.name == "$listSessions" && p.NS != (Namespace{"config", "system.sessions"}) {
		return nil, mongoerr.New(mongoerr.InvalidNamespace, "$listSessions may only be run against config.system.sessions")
	}
	return &Server{p.name, arg}, nil
}

func (s *Server) source() {}

// Name is the stage's name.
func (s *Server) Name() string { return s.name }

// Serialize is the argument.
func (s *Server) Serialize() bson.Value { return s.Arg }

// Open asks the World.
func (s *Server) Open(_ Iterator, r *Run) (Iterator, error) {
	return r.World.Source(context.Background(), s.name, s.Arg)
}
