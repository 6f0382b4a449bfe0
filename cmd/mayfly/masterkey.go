package main

import (
	"errors"
	"flag"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/seal"
	"github.com/mayflydb/mayfly/internal/storage"
)

// masterOptions are the options of a tool about the master key of a data directory.
type masterOptions struct{ file, command string }

// register declares --PREFIXKeyFile and --PREFIXKeyCommand.
func (o *masterOptions) register(f *flag.FlagSet, prefix string) {
	f.StringVar(&o.file, prefix+"KeyFile", "", "")
	f.StringVar(&o.command, prefix+"KeyCommand", "", "")
}

// master is the master key; nil if none was given.
func (o *masterOptions) master() (seal.Master, error) {
	switch {
	case o.file != "" && o.command != "":
		return nil, errors.New("a master key comes from a file or from a command, and not from both")
	case o.command != "":
		return seal.CommandMaster(o.command), nil
	case o.file == "":
		return nil, nil
	}
	key, err := config.ReadMasterKey(o.file)
	if err != nil {
		return nil, err
	}
	return seal.KeyMaster(key), nil
}

// unlock is the file system of a data directory.
func (o *masterOptions) unlock(dir string) (storage.FS, error) {
	m, err := o.master()
	if err != nil {
		return nil, err
	}
	return storage.Unlock(storage.OSFS(), dir, m)
}
