package seal

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// commandTime is how long the command of a CommandMaster may take.
const commandTime = 30 * time.Second

// maxWrapped bounds a wrapped store key.
const maxWrapped = 16 << 10

// CommandMaster is a program that has the master key, or asks who has it: a client of KMIP, of a
// cloud's key service or of a TPM. It is run with "wrap" or "unwrap", gets a key in base64 on its
// standard input, and answers with one on its standard output.
type CommandMaster string

// ID implements Master: the program says by itself that a key is not its own.
func (m CommandMaster) ID() string { return "command" }

// Wrap implements Master.
func (m CommandMaster) Wrap(store Key, _ StoreID) ([]byte, error) { return m.run("wrap", store) }

// Unwrap implements Master.
func (m CommandMaster) Unwrap(wrapped []byte, _ StoreID) (Key, error) {
	return m.run("unwrap", wrapped)
}

func (m CommandMaster) run(what string, in []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	var said bytes.Buffer
	c := exec.CommandContext(ctx, string(m), what)
	c.Stdin = strings.NewReader(base64.StdEncoding.EncodeToString(in) + "\n")
	c.Stderr = &said
	c.WaitDelay = time.Second
	out, err := c.Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s %s has not ended within %v", m, what, commandTime)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", m, what, err, bytes.TrimSpace(said.Bytes()[:min(said.Len(), 1<<10)]))
	}
	key, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(out)))
	if err != nil || len(key) == 0 || len(key) > maxWrapped {
		return nil, fmt.Errorf("%s %s answered with no key in base64", m, what)
	}
	return key, nil
}
