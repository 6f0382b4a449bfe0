package auth

import (
	"container/list"
	"context"
	"crypto/sha256"
	"net"
	"sync"
	"time"
)

const (
	// firstDelay is how long a login waits after one that failed; each further
	// failure doubles it, up to maxDelay.
	firstDelay = 100 * time.Millisecond
	maxDelay   = 5 * time.Second
	// quiet is how long after the last failure nothing is remembered of it.
	quiet = 15 * time.Minute
	// maxFailing bounds the pairs of an address and a user that are remembered.
	// The one that has not failed for longest makes room.
	maxFailing = 10000
)

// Failures remembers logins that failed, and makes the next ones wait that come
// from the same address for the same user. Nobody else waits: neither the user at
// other addresses nor other users at the address. The zero value is ready.
type Failures struct {
	mu     sync.Mutex
	byPair map[pair]*list.Element
	recent list.List // of *failing; the latest failure first
}

// pair is a digest of address and user: names of any length take the same room.
type pair [sha256.Size]byte

type failing struct {
	pair  pair
	count int
	last  time.Time
}

// pairOf takes the host of remote: each connection has a port of its own.
func pairOf(remote string, user UserName) pair {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	return sha256.Sum256([]byte(remote + "\x00" + user.DB + "\x00" + user.User))
}

// Failed notes a login of user from remote ("host:port") that failed.
func (f *Failures) Failed(remote string, user UserName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	p := pairOf(remote, user)
	e := f.byPair[p]
	if e == nil {
		if f.byPair == nil {
			f.byPair = map[pair]*list.Element{}
		}
		if f.recent.Len() == maxFailing {
			f.forget(f.recent.Back())
		}
		e = f.recent.PushFront(&failing{pair: p})
		f.byPair[p] = e
	}
	one := e.Value.(*failing)
	if now.Sub(one.last) > quiet {
		one.count = 0
	}
	one.count, one.last = one.count+1, now
	f.recent.MoveToFront(e)
}

// Succeeded forgets the failures of user from remote.
func (f *Failures) Succeeded(remote string, user UserName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.byPair[pairOf(remote, user)]; e != nil {
		f.forget(e)
	}
}

func (f *Failures) forget(e *list.Element) {
	delete(f.byPair, e.Value.(*failing).pair)
	f.recent.Remove(e)
}

// Delay is how long a login of user from remote has to wait.
func (f *Failures) Delay(remote string, user UserName) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.byPair[pairOf(remote, user)]
	if e == nil || time.Since(e.Value.(*failing).last) > quiet {
		return 0
	}
	d := firstDelay
	for range e.Value.(*failing).count - 1 {
		if d *= 2; d >= maxDelay {
			return maxDelay
		}
	}
	return d
}

// Wait waits that long, or until ctx ends, whose cause it returns.
func (f *Failures) Wait(ctx context.Context, remote string, user UserName) error {
	d := f.Delay(remote, user)
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
