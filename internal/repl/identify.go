package repl

import (
	"context"
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Identity is what a process reports about its member of a group to a member that is
// about to put it into a configuration. Who knows the raft ids of two members can speak
// for one of them to the other: a member of a set tells its own only to those who know
// the set's id.
type Identity struct {
	Raft uint64   // of its data directory; 0 if it does not tell
	Set  string   // "" if it is in none
	ID   [12]byte // of that set; zero if it does not tell
	Name string   // of the set that the process was started for; "" for any
	// HasData says that it has data, which a set's data would replace.
	HasData bool
}

// Identify asks the process at a host for its member of a group. of is the id of the
// asking member's set. Errors: 74 if there is none, or it cannot be reached.
func (n *Network) Identify(ctx context.Context, host string, group Number, of [12]byte) (Identity, error) {
	d, err := n.identify(ctx, host, group, of)
	if err != nil {
		return Identity{}, mongoerr.New(mongoerr.NodeNotFound, "%s failed with %s", host, status.Convert(err).Message())
	}
	raft, ok := bson.ExactInt64(d.Lookup("raft"))
	set, id := d.Lookup("set"), d.Lookup("replicaSetId")
	if !ok || set.Type != bson.TypeString || id.Type != bson.TypeObjectID {
		return Identity{}, mongoerr.New(mongoerr.NodeNotFound, "%s failed with a reply that this version cannot read", host)
	}
	who := Identity{Raft: uint64(raft), Set: set.Str(), ID: id.ObjectID(), HasData: d.Lookup("hasData").Truthy()}
	if name := d.Lookup("name"); name.Type == bson.TypeString {
		who.Name = name.Str()
	}
	return who, nil
}

func (n *Network) identify(ctx context.Context, host string, group Number, of [12]byte) (bson.Doc, error) {
	conn, err := n.dial(host)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, _, err := askOnce(ctx, conn, identifyStream, append(binary.LittleEndian.AppendUint32(nil, uint32(group)), of[:]...))
	return answer, err
}

// serveIdentity answers Identify.
func (n *Network) serveIdentity(s grpc.ServerStream) error {
	var asked []byte
	if err := s.RecvMsg(&asked); err != nil {
		return err
	}
	if len(asked) != 4+12 {
		return status.Error(codes.InvalidArgument, errFrame.Error())
	}
	group, of := Number(binary.LittleEndian.Uint32(asked)), [12]byte(asked[4:])
	n.mu.Lock()
	m := n.members[group]
	n.mu.Unlock()
	if m == nil {
		return status.Errorf(codes.NotFound, "this host has no member of group %d", group)
	}
	st := m.State()
	who := Identity{Raft: st.ID}
	if c := st.Config; c != nil {
		if who.Set = c.Set; of == c.ID {
			who.ID = c.ID
		} else {
			who.Raft = 0
		}
	}
	b := new(bson.Builder).Int64("raft", int64(who.Raft)).String("set", who.Set).ObjectID("replicaSetId", who.ID)
	if n.opts.About != nil {
		name, hasData := n.opts.About()
		b.String("name", name).Bool("hasData", hasData)
	}
	return s.SendMsg([]byte(b.Finish()))
}
