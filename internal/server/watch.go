package server

import "time"

const (
	// watchEvery is how often running operations are looked at.
	watchEvery = 100 * time.Millisecond
	// watchAfter is how long an operation runs before it is worth a look.
	watchAfter = 100 * time.Millisecond
)

// watch interrupts long operations whose client has gone, as nobody will read
// their reply. Writes go on: the client may have seen nothing of them, but
// what it asked for counts. It returns when the server's life ends.
func (s *Server) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-tick.C:
		}
		now := int64(time.Since(s.started))
		for _, c := range s.long(now - int64(watchAfter)) {
			if c.raw != nil && hungUp(c.raw) {
				c.cancel(errDisconnected)
			}
		}
	}
}

// long returns the connections whose operation, which is no write, began
// before that time.
func (s *Server) long(before int64) []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*link
	for c := range s.mu.links {
		if since := c.busySince.Load(); since > 0 && since < before && !c.writes() {
			all = append(all, c)
		}
	}
	return all
}
