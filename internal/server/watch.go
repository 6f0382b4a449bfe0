package server

import "time"

const (
	// watchEvery is the interval of checks of running operations.
	watchEvery = 400 * time.Millisecond
	// watchAfter is how long an operation runs before it is checked.
	watchAfter = 100 * time.Millisecond
)

// watch interrupts long operations whose client has disconnected, as no one will read
// their reply. Writes continue: the client requested them. It returns when the server
// ends.
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
			if c.hungUp() {
				c.cancel(errDisconnected)
			}
		}
	}
}

// long returns the connections whose operation is not a write, and started before a time.
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
