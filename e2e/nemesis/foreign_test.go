package nemesis

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// foreigner is a driver of another language: a process that increments tallies by tokens
// of a prefix, until its standard input ends, and prints those that are acknowledged.
type foreigner struct {
	prefix  string
	command []string
}

var foreigners = []foreigner{
	{"node-", []string{"node", "client.mjs"}},
	{"python-", []string{"/usr/bin/python3", "client.py"}},
}

// foreign is a foreigner at work.
type foreign struct {
	foreigner
	uri    string
	acked  []string
	errors bytes.Buffer
	err    error
}

func (f *foreign) run(ctx context.Context) {
	cmd := exec.Command(f.command[0], append(f.command[1:], f.uri, f.prefix)...)
	cmd.Stderr = &f.errors
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if f.err = errors.Join(err, err2); f.err != nil {
		return
	}
	if f.err = cmd.Start(); f.err != nil {
		return
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			f.acked = append(f.acked, lines.Text())
		}
	})
	<-ctx.Done()
	_ = in.Close()
	reading.Wait()
	f.err = cmd.Wait()
}

// check takes its tokens out of those that were found, and judges them.
func (f *foreign) check(t *testing.T, found map[string]int) {
	t.Helper()
	if f.err != nil {
		t.Errorf("%s: %v\n%s", f.prefix, f.err, f.errors.String())
	}
	l := newLedger()
	for _, token := range f.acked {
		l.acked[token] = true
	}
	mine := map[string]int{}
	for token, n := range found {
		if strings.HasPrefix(token, f.prefix) {
			l.begun[token] = true // what was not acknowledged may be there
			mine[token] = n
			delete(found, token)
		}
	}
	l.judge(t, f.prefix, mine)
	errs, _ := io.ReadAll(&f.errors)
	t.Logf("%s: %d lines of errors:\n%s", f.prefix, bytes.Count(errs, []byte("\n")), errs[:min(len(errs), 1000)])
}
