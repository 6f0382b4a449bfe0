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
// about to put it into a configuration.
type Identity struct {
	Raft uint64   // of its data directory
	Set  string   // "" where it is in none
	ID   [12]byte // of that set
	Name string   // of the set that the process was started for; "" for any
	// HasData says that it has data, which a set's data would replace.
	HasData bool
}

// Identify asks the process at a host for its member of a group. Errors: 74 where there
// is none, or it cannot be reached.
func (n *Network) Identify(ctx context.Context, host string, group Number) (Identity, error) {
	d, err := n.identify(ctx, host, group)
	if err != nil {
		return Identity{}, mongoerr.New(mongoerr.NodeNotFound, "%s failed with %s", host, status.Convert(err).Message())
	}
	raft, ok := bson.ExactInt64(d.Lookup("raft"))
	set, id := d.Lookup("set"), d.Lookup("replicaSetId")
	if !ok || set.Type != bson.TypeString || id.Type != bson.TypeObjectID {
		return Identity{}, mongoerr.New(mongoerr.NodeNotFound, "%s failed with an answer that this version does not know", host)
	}
	who := Identity{Raft: uint64(raft), Set: set.Str(), ID: id.ObjectID(), HasData: d.Lookup("hasData").Truthy()}
	if name := d.Lookup("name"); name.Type == bson.TypeString {
		who.Name = name.Str()
	}
	return who, nil
}

func (n *Network) identify(ctx context.Context, host string, group Number) (bson.Doc, error) {
	conn, err := n.dial(host)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, _, err := askOnce(ctx, conn, identifyStream, binary.LittleEndian.AppendUint32(nil, uint32(group)))
	return answer, err
}

// serveIdentity answers Identify.
func (n *Network) serveIdentity(s grpc.ServerStream) error {
	var asked []byte
	if err := s.RecvMsg(&asked); err != nil {
		return err
	}
	if len(asked) != 4 {
		return status.Error(codes.InvalidArgument, errFrame.Error())
	}
	group := Number(binary.LittleEndian.Uint32(asked))
	n.mu.Lock()
	m := n.members[group]
	n.mu.Unlock()
	if m == nil {
		return status.Errorf(codes.NotFound, "no member of group %d is here", group)
	}
	st := m.State()
	var set string
	var id [12]byte
	if st.Config != nil {
		set, id = st.Config.Set, st.Config.ID
	}
	b := new(bson.Builder).Int64("raft", int64(st.ID)).String("set", set).ObjectID("replicaSetId", id)
	if n.opts.About != nil {
		name, hasData := n.opts.About()
		b.String("name", name).Bool("hasData", hasData)
	}
	return s.SendMsg([]byte(b.Finish()))
}
