package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mayflydb/mayfly/internal/accountimport"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/cosmos"
)

const importAccountUsage = `Usage: mayfly import --from https://ACCOUNT/ --to https://TARGET/ [options]

Makes a server with the Cosmos DB endpoint hold the databases, containers and items of an Azure Cosmos
DB account (NoSQL API), or the other way round. Each item is compared, and written where it differs:
so it can be run again, while the source is written to, and once more when it no longer is. That
has nothing to write when both are equal.

  --from URL, --to URL    the accounts
  --fromKeyFile FILE, --toKeyFile FILE
                          their keys; without, that of the vendor's emulator, which everybody knows
  --delete                delete items of the target that the source does not have; databases and
                          containers stay
  --parallel N            work on so many items at a time, 1 to 64 (8)

Exit codes: 0 done; 1 the target has items, containers or databases that the source does not
have; 2 wrong options; 14 interrupted; 100 it could not be done.
`

func importAccount(args []string) int {
	o := accountimport.Options{Tell: func(line string) { fmt.Println(line) }}
	var from, to, fromKey, toKey string
	f := flag.NewFlagSet("mayfly import", flag.ContinueOnError)
	f.StringVar(&from, "from", "", "")
	f.StringVar(&to, "to", "", "")
	f.StringVar(&fromKey, "fromKeyFile", "", "")
	f.StringVar(&toKey, "toKeyFile", "", "")
	f.BoolVar(&o.Delete, "delete", false, "")
	f.IntVar(&o.Parallel, "parallel", accountimport.DefaultParallel, "")
	if code, ok := parse(f, importAccountUsage, args); !ok {
		return code
	}
	if o.Parallel < 1 || o.Parallel > accountimport.MaxParallel {
		return misused(f, importAccountUsage, fmt.Sprintf("--parallel is 1 to %d", accountimport.MaxParallel))
	}
	var err1, err2 error
	o.From, err1 = openAccount("the source", from, fromKey)
	o.To, err2 = openAccount("the target", to, toKey)
	if err := errors.Join(err1, err2); err != nil {
		return misused(f, importAccountUsage, err.Error())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := accountimport.Run(ctx, o); errors.Is(err, accountimport.ErrDiffers) {
		fmt.Fprintln(os.Stderr, "mayfly import:", err)
		return config.ExitDamaged
	} else if err != nil {
		return toolFailed(ctx, "import", err)
	}
	return config.ExitClean
}

// openAccount makes the requests to an account, whose key is in a file.
func openAccount(name, address, file string) (*accountimport.Account, error) {
	key := cosmos.WellKnownKey
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		key = string(b)
	}
	return accountimport.OpenAccount(name, address, key)
}
