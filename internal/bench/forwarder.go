package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// forwarder is a shard that is asked by a process in between which looks at nothing: it
// copies the bytes of a connection to one of its own, and what comes back. No router can
// cost less.
type forwarder struct {
	mayfly
	between *process
}

// startForwarder starts the process in front of a shard.
func startForwarder(ctx context.Context, dir, binary string, shard *directShard) (_ *forwarder, err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	f := &forwarder{mayfly: shard.mayfly}
	if f.between, err = startProcess(exec.Command(binary, "-forwarder", strconv.Itoa(port), "-forward-to", strconv.Itoa(shard.port)), dir, "forwarder"); err != nil {
		return nil, err
	}
	if err := f.between.listening(ctx, port); err != nil {
		return nil, errors.Join(err, f.close())
	}
	if f.client, err = mongo.Connect(options.Client().ApplyURI("mongodb://" + local(port) + "/?directConnection=true")); err != nil {
		return nil, errors.Join(err, f.close())
	}
	f.plain = f.client.Database(shard.plain.Database().Name()).Collection(shard.plain.Name())
	f.journaled = f.plain
	return f, nil
}

func (f *forwarder) worker(context.Context) (worker, error) { return &mayflyWorker{&f.mayfly}, nil }

// cpu is the processor time of the forwarder and the shard.
func (f *forwarder) cpu() (time.Duration, error) {
	shard, err := f.mayfly.cpu()
	if err != nil {
		return 0, err
	}
	between, err := f.between.cpu()
	return shard + between, err
}

// close ends what is in front of the shard, which goes on.
func (f *forwarder) close() error {
	if f.client != nil {
		_ = f.client.Disconnect(context.Background()) // the process goes anyway
	}
	return f.between.stop(syscall.SIGKILL)
}

// ServeForwarder is the process: it forwards the connections to a port of this machine to
// another one until it is killed.
func ServeForwarder(port, to int) error {
	return serveEach(port, func(client net.Conn) error {
		shard, err := net.Dial("tcp", local(to))
		if err != nil {
			return fmt.Errorf("forwarding: %w", err)
		}
		defer shard.Close()
		go func() {
			_, _ = io.Copy(client, shard) // ends with either side
			_ = client.Close()
		}()
		_, err = io.Copy(shard, client)
		return err
	})
}
