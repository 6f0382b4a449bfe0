package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/storage"
)

const rotateKeyUsage = `Usage: mayfly rotatekey --dbpath DIR OLD NEW

Gives an encrypted data directory, which no server has open, another master key. One small
file is written anew, whatever the size of the data; the old key does not open it any more.
Backups from before need the old key.

  --encryptionKeyFile FILE, --encryptionKeyCommand PROGRAM
                            OLD: the master key of the directory
  --newEncryptionKeyFile FILE, --newEncryptionKeyCommand PROGRAM
                            NEW: the one it gets

Exit codes: 0 done; 2 wrong options; 100 it could not be done, and nothing was changed.
`

// rotateKey gives a data directory another master key.
func rotateKey(args []string) int {
	var dir string
	var from, to masterOptions
	f := flag.NewFlagSet("mayfly rotatekey", flag.ContinueOnError)
	f.StringVar(&dir, "dbpath", "", "")
	from.register(f, "encryption")
	to.register(f, "newEncryption")
	if code, ok := parse(f, rotateKeyUsage, args); !ok {
		return code
	}
	before, err := from.master()
	if err != nil {
		return misused(f, rotateKeyUsage, err.Error())
	}
	after, err := to.master()
	if err != nil {
		return misused(f, rotateKeyUsage, err.Error())
	}
	if dir == "" || before == nil || after == nil {
		return misused(f, rotateKeyUsage, "--dbpath, the old and the new master key are all needed")
	}
	if err := storage.RotateMasterKey(storage.OSFS(), dir, before, after); err != nil {
		return toolFailed(context.Background(), "rotatekey", err)
	}
	fmt.Printf("%s has the master key %s now.\n", dir, after.ID())
	return config.ExitClean
}
