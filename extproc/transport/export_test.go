package transport

import "fmt"

// Held returns the bytes of messages that streams hold, and their bound. Waiting are the most bytes of any connection
// that wait for a peer to take them.
func (s *Server) Held() (held, bound, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		out := len(c.out)
		for _, of := range c.streams {
			out += len(of.pending)
		}
		waiting = max(waiting, out)
		c.mu.Unlock()
	}
	return int(s.held.Load()), s.options.MaxHeld, waiting
}

// Open returns the number of connections and of streams.
func (s *Server) Open() (conns, streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		streams += len(c.streams)
		c.mu.Unlock()
	}
	return len(s.conns), streams
}

// State describes the connections and their streams, for a test that fails.
func (s *Server) State() (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		lines = append(lines, fmt.Sprintf("connection: out %d, batch %v, writing %v, window %d, starved %d, dead %v",
			len(c.out), c.batch, c.writing, c.window, len(c.starved), c.dead))
		for _, of := range c.streams {
			lines = append(lines, fmt.Sprintf("  stream %d: busy %v, queue %d, pending %d, window %d, gone %v, closed %v, ended %v",
				of.id, of.busy, len(of.queue), len(of.pending), of.window, of.gone, of.closed, of.clientClosed))
		}
		c.mu.Unlock()
	}
	return lines
}
