package client_test

import (
	"net"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/server/servertest"
	"github.com/mayflydb/mayfly/internal/wire"
)

// greeted is what a client, a part of the same cluster, makes of a server that answers hello so.
func greeted(t *testing.T, reply string) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		f, err := wire.NewReader(c).Next()
		if err != nil {
			return
		}
		if m, err := wire.Parse(f); err == nil {
			_, _ = wire.Write(c, m.Answer(1, bson.MustParse(reply)))
		}
	}()
	c, err := client.Connect(t.Context(), client.Options{Address: l.Addr().String(), Peer: true})
	if err == nil {
		_ = c.Close()
	}
	return err
}

// TestProtocolOfServers holds that a part of a cluster does not go on with one that speaks no
// protocol that it understands, and says which of the two is to be upgraded.
func TestProtocolOfServers(t *testing.T) {
	for _, c := range []struct{ reply, wrong string }{
		{`{"ok":1,"mayfly":{"version":"0.1.0","min":1,"max":1}}`, ""},
		{`{"ok":1,"mayfly":{"version":"9.0.0","min":1,"max":7}}`, ""},
		{`{"ok":1}`, "from before 0.1.0"},
		{`{"ok":1,"mayfly":7}`, "from before 0.1.0"},
		{`{"ok":1,"mayfly":{"version":"0.0.9","min":0,"max":0}}`, "is Mayfly 0.0.9, which speaks protocol 0; this is Mayfly 0.1.0, which speaks none older than 1. Upgrade the other one first"},
		{`{"ok":1,"mayfly":{"version":"9.0.0","min":6,"max":7}}`, "is Mayfly 9.0.0, which speaks protocol 6 and newer; this is Mayfly 0.1.0, which speaks 1. Upgrade this one first"},
	} {
		err := greeted(t, c.reply)
		if c.wrong == "" && err != nil || c.wrong != "" && (!mongoerr.Is(err, mongoerr.IncompatibleServerVersion) || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %v; want %q", c.reply, err, c.wrong)
		}
	}
}

// TestProtocolOfClients holds that a shard refuses routers of builds that it does not understand,
// that a server which is no part of a cluster lets older tools in, and that nobody who does not
// ask is told of protocols.
func TestProtocolOfClients(t *testing.T) {
	shard := servertest.Start(t, "--shardsvr", "--replSet", "s", "--initiate", "--port", "0").Address
	alone := servertest.Start(t).Address
	hello := func(address, client string) (bson.Doc, error) {
		t.Helper()
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := wire.Write(c, &wire.Message{OpCode: wire.OpMsg, Compressor: wire.None, Body: bson.MustParse(`{"hello":1,"client":{"driver":{"name":"mayfly","version":"0"},"os":{"type":"linux"}` + client + `},"$db":"admin"}`)}); err != nil {
			t.Fatal(err)
		}
		f, err := wire.NewReader(c).Next()
		if err != nil {
			t.Fatal(err)
		}
		m, err := wire.Parse(f)
		if err != nil {
			t.Fatal(err)
		}
		reply := m.Body.Clone()
		if !reply.Lookup("ok").Truthy() {
			return reply, mongoerr.New(mongoerr.Code(bson.ClampToInt64(reply.Lookup("code"))), "%s", reply.Lookup("errmsg").Str())
		}
		return reply, nil
	}
	for _, c := range []struct {
		address, client string
		code            mongoerr.Code
		told            bool
	}{
		{shard, `,"mayfly":{"version":"0.1.0","min":1,"max":1}`, 0, true},
		{shard, ``, mongoerr.IncompatibleServerVersion, false},
		{shard, `,"mayfly":{"version":"0.0.1","min":0,"max":0}`, mongoerr.IncompatibleServerVersion, false},
		{shard, `,"mayfly":{"version":"9","min":2,"max":2}`, mongoerr.IncompatibleServerVersion, false},
		{alone, ``, 0, false},
		{alone, `,"mayfly":{"version":"9","min":2,"max":2}`, mongoerr.IncompatibleServerVersion, false},
	} {
		reply, err := hello(c.address, c.client)
		if c.code != 0 && !mongoerr.Is(err, c.code) || c.code == 0 && err != nil || client.SaysProtocol(reply) != c.told {
			t.Errorf("%q: %v, %s; want code %d", c.client, err, reply, c.code)
		}
	}
}
