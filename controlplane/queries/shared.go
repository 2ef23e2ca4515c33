package queries

import (
	"sync"
	"time"
)

// A shared keeps what was gathered for a moment, so that many who watch cost as much as one. Who gets it must not
// modify it.
type shared[T any] struct {
	mu    sync.Mutex // guards what follows, and is held while it is gathered
	until time.Time
	found T
}

// get returns what is kept, or gathers it and keeps it for a time.
func (s *shared[T]) get(keep time.Duration, gather func() (T, error)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return s.found, nil
	}
	found, err := gather()
	if err == nil {
		s.found, s.until = found, time.Now().Add(keep)
	}
	return found, err
}
