package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// redisPipeline is how many commands are sent before their replies are read.
	redisPipeline = 10_000
	// redisEffort is active-expire-effort at its highest: expiry takes as much of
	// the server as it may.
	redisEffort = "10"
)

// expireRedis is how many keys a second Redis (Debian's redis-server) removes
// on its own once they are due: n keys with values of the size of documents,
// nothing else to do, no persistence.
func expireRedis(ctx context.Context, dir string, n int64) (perSecond float64, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return 0, fmt.Errorf("%w: install Debian's redis-server, or leave Redis out with -redis=false", err)
	}
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	data := filepath.Join(dir, "redis")
	if err := os.Mkdir(data, 0o755); err != nil {
		return 0, err
	}
	p, err := startProcess(exec.Command(path, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", data, "--save", "", "--appendonly", "no",
		"--enable-debug-command", "local", "--active-expire-effort", redisEffort), dir, "redis")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.stop(syscall.SIGKILL)) }()
	if err := p.listening(ctx, port); err != nil {
		return 0, err
	}
	conn, err := net.Dial("tcp", local(port))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	r := &redis{w: bufio.NewWriter(conn), r: bufio.NewReader(conn)}
	return r.expire(ctx, n)
}

// redis is a connection that speaks its protocol (RESP).
type redis struct {
	w *bufio.Writer
	r *bufio.Reader
}

func (r *redis) expire(ctx context.Context, n int64) (float64, error) {
	if _, err := r.call("DEBUG", "SET-ACTIVE-EXPIRE", "0"); err != nil {
		return 0, err
	}
	// Keys with an instant in the past would not be kept at all.
	due := time.Now().Add(time.Second).UnixMilli()
	for at := int64(0); at < n; at += redisPipeline {
		due = max(due, time.Now().Add(time.Second).UnixMilli())
		end := min(at+redisPipeline, n)
		for id := at; id < end; id++ {
			r.send("SET", "key:"+strconv.FormatInt(id, 10), padding[:liveBytes], "PXAT", strconv.FormatInt(due, 10))
		}
		if err := r.w.Flush(); err != nil {
			return 0, err
		}
		for range end - at {
			if _, err := r.reply(); err != nil {
				return 0, err
			}
		}
	}
	time.Sleep(time.Until(time.UnixMilli(due)) + time.Millisecond)
	if _, err := r.call("DEBUG", "SET-ACTIVE-EXPIRE", "1"); err != nil {
		return 0, err
	}
	begun := time.Now()
	for ctx.Err() == nil {
		gone, err := r.expired()
		if err != nil {
			return 0, err
		}
		if gone >= n {
			return float64(n) / time.Since(begun).Seconds(), nil
		}
		time.Sleep(pollEvery)
	}
	return 0, context.Cause(ctx)
}

// expired is how many keys have been removed because they were due.
func (r *redis) expired() (int64, error) {
	stats, err := r.call("INFO", "stats")
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(stats, "expired_keys:")
	if !ok {
		return 0, errWrong
	}
	number, _, _ := strings.Cut(rest, "\r")
	return strconv.ParseInt(number, 10, 64)
}

func (r *redis) call(args ...string) (string, error) {
	r.send(args...)
	if err := r.w.Flush(); err != nil {
		return "", err
	}
	return r.reply()
}

// send writes a command; the writer keeps its error until it is flushed.
func (r *redis) send(args ...string) {
	fmt.Fprintf(r.w, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(r.w, "$%d\r\n%s\r\n", len(a), a)
	}
}

// reply reads a simple string, an error, or a bulk string.
func (r *redis) reply() (string, error) {
	line, err := r.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '-':
		return "", fmt.Errorf("redis: %s", text)
	case '$':
		size, err := strconv.Atoi(text)
		if err != nil || size < 0 || size > maxEcho {
			return "", errors.Join(err, errWrong)
		}
		b := make([]byte, size+2)
		_, err = io.ReadFull(r.r, b)
		return string(b[:size]), err
	}
	return text, nil
}
