package storage

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestStored holds the bytes of the engine's own keys and values, and of the small
// files of a data directory (docs/format):
//
//	ident   the varint of each number
//	write   a unit: set IDENT KEY VALUE, sums IDENT KEY N…, or IDENT KEY BITS,
//	        count IDENT FIRST SECOND, take common|own; keys and bits are hex
//	apply   the same, as the place in the log of a group
//	keys    all keys of the store, and their values
//	files   the names in the data directory, but for Pebble's numbers
//	file    what is in one
//	switch  makes an incoming store that of the directory
func TestStored(t *testing.T) {
	fs := NewMemFS()
	e := openMem(t, fs)
	datadriven.RunTest(t, "testdata/stored", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		switch d.Cmd {
		case "ident":
			for _, line := range strings.Fields(d.Input) {
				fmt.Fprintf(&b, "%x\n", AppendIdent(nil, Ident(number(t, line))))
			}
		case "write", "apply":
			u := e.Begin()
			defer u.Abort()
			for _, line := range strings.Split(d.Input, "\n") {
				writeStored(t, e, u, strings.Fields(line))
			}
			if d.Cmd == "write" {
				noError(t, u.Commit(context.Background(), Journaled))
				break
			}
			noError(t, u.Seal())
			noError(t, u.Apply(uint64(number(t, d.CmdArgs[0].Key))))
		case "keys":
			noError(t, e.EachKey(func(id Ident, key, value []byte) error {
				fmt.Fprintf(&b, "%x %x\n", appendKey(nil, id, key), value)
				return nil
			}))
		case "files":
			names, err := fs.List("db")
			noError(t, err)
			slices.Sort(names)
			for _, name := range names {
				if strings.HasPrefix(name, "mayfly") || strings.HasPrefix(name, storePrefix) || name == "LOCK" {
					fmt.Fprintln(&b, name)
				}
			}
		case "file":
			f, err := fs.Open("db/" + d.CmdArgs[0].Key)
			noError(t, err)
			defer f.Close()
			content, err := io.ReadAll(f)
			noError(t, err)
			return string(content)
		case "switch":
			noError(t, fs.MkdirAll("incoming", 0o755))
			place, err := Switch(fs, "db", "incoming")
			noError(t, err)
			return place + "\n"
		}
		return b.String()
	})
	noError(t, e.Close())
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 0, 64)
	noError(t, err)
	return n
}

// writeStored does what a line of a write says.
func writeStored(t *testing.T, e *Engine, u *Unit, line []string) {
	t.Helper()
	bytesOf := func(i int) []byte {
		b, err := hex.DecodeString(line[i])
		noError(t, err)
		return b
	}
	if line[0] == "take" {
		u.NewIdent(map[string]IdentRange{"common": CommonIdents, "own": OwnIdents}[line[1]])
		return
	}
	id := Ident(number(t, line[1]))
	switch line[0] {
	case "set":
		noError(t, u.Set(id, bytesOf(2), bytesOf(3)))
	case "or":
		noError(t, u.OrBits(id, bytesOf(2), bytesOf(3)))
	case "sums":
		var sums []int64
		for _, n := range line[3:] {
			sums = append(sums, number(t, n))
		}
		noError(t, u.AddSums(id, bytesOf(2), sums))
	case "count":
		c, err := e.OpenCounter(id)
		noError(t, err)
		u.Add(c, 0, number(t, line[2]))
		u.Add(c, 1, number(t, line[3]))
	default:
		t.Fatalf("no %q", line[0])
	}
}
