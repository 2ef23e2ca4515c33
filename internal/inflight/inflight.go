// Package inflight bounds the bytes of bodies that a process holds at the same time, in total and for each key, so
// that requests and answers cannot exhaust the memory.
//
// A semaphore of golang.org/x/sync is not enough: room is taken from the process and the key in one step, and a key
// without any bytes gets all room that is free.
//
// It counts a body once, with its size before translation. The process needs several times that size, and the bounds
// take this into account.
package inflight

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Small is the size in bytes up to which a body is not counted: most are smaller, and cost nothing here.
const Small = 128 << 10

// ErrTotal says that the process holds as much as it may, and ErrKey that a key does.
var (
	ErrTotal = errors.New("the process holds as many bytes of bodies as it may")
	ErrKey   = errors.New("the key has as many bytes of bodies under way as it may")
)

// Bytes count the bytes held by all, and by each key. New makes it. It is safe for concurrent use; nil has no
// bounds.
type Bytes struct {
	total, each int64

	mu    sync.Mutex // guards what follows
	held  int64
	byKey map[string]int64
	short time.Time     // when somebody found no room in the total the last time
	given chan struct{} // closed when something is given back; nil while nobody waits
}

// New returns Bytes. All keys together hold at most total, and each of them at most each.
func New(total, each int64) *Bytes {
	return &Bytes{total: total, each: each, byKey: map[string]int64{}}
}

// Held returns how many bytes are held.
func (b *Bytes) Held() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// recently is for how long after the fact it is said that there was no room.
const recently = 10 * time.Minute

// Warning says that a body found no room beside those of others a short time ago; or "".
func (b *Bytes) Warning() string {
	if b == nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if ago := time.Since(b.short); ago < recently {
		return fmt.Sprintf("a body found no room %s ago: the process holds at most %d MB of them", ago.Round(time.Second),
			b.total>>20)
	}
	return ""
}

// A Hold is one exchange's part of Bytes. Its zero value holds nothing. One goroutine at a time uses it.
type Hold struct {
	of   *Bytes
	key  string
	held int64
}

// Grow has it hold at least so many bytes in all, or returns why not; then it holds what it has held. A key that holds
// nothing gets what there is room for, however much that is.
func (h *Hold) Grow(of *Bytes, key string, bytes int64) error {
	if of == nil || bytes <= Small || bytes <= h.held {
		return nil
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	return h.grow(of, key, bytes)
}

func (h *Hold) grow(of *Bytes, key string, bytes int64) error {
	more, own := bytes-h.held, of.byKey[key]
	switch {
	case own > h.held && own+more > of.each:
		return ErrKey
	case of.held > h.held && of.held+more > of.total:
		of.short = time.Now()
		return ErrTotal
	}
	h.of, h.key, h.held = of, key, bytes
	of.held += more
	of.byKey[key] = own + more
	return nil
}

// Wait is Grow that waits for room until ctx ends.
func (h *Hold) Wait(ctx context.Context, of *Bytes, key string, bytes int64) error {
	if of == nil || bytes <= Small || bytes <= h.held {
		return nil
	}
	for {
		of.mu.Lock()
		err := h.grow(of, key, bytes)
		if err == nil {
			of.mu.Unlock()
			return nil
		}
		if of.given == nil {
			of.given = make(chan struct{})
		}
		given := of.given
		of.mu.Unlock()
		select {
		case <-given:
		case <-ctx.Done():
			return err
		}
	}
}

// Release gives everything back. It may be called more than once.
func (h *Hold) Release() {
	of := h.of
	if of == nil {
		return
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.held -= h.held
	if of.byKey[h.key] -= h.held; of.byKey[h.key] == 0 {
		delete(of.byKey, h.key)
	}
	*h = Hold{}
	if of.given != nil {
		close(of.given)
		of.given = nil
	}
}
