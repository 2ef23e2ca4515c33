package kubernetes

import (
	"context"
	"sync"
	"time"

	"github.com/modelgate/modelgate/internal/timing"
)

// A key names an object of Kubernetes: one of ours by the name of its kind, or by the plural of another resource.
type key struct{ kind, namespace, name string }

// A queue is a set of keys that somebody looks at. It is safe for concurrent use.
type queue struct {
	mu    sync.Mutex // guards waits
	waits map[key]bool
	kick  chan struct{}
}

func newQueue() *queue { return &queue{waits: map[key]bool{}, kick: make(chan struct{}, 1)} }

func (q *queue) add(keys ...key) {
	if len(keys) == 0 {
		return
	}
	q.mu.Lock()
	for _, k := range keys {
		q.waits[k] = true
	}
	q.mu.Unlock()
	select {
	case q.kick <- struct{}{}:
	default:
	}
}

// take waits for keys, gathers what comes soon after them, and takes up to most. It returns none when ctx ends.
func (q *queue) take(ctx context.Context, after time.Duration, most int) []key {
	for {
		if keys := q.some(most); len(keys) > 0 {
			return keys
		}
		select {
		case <-ctx.Done():
			return nil
		case <-q.kick:
			if timing.Sleep(ctx, after) != nil {
				return nil
			}
		}
	}
}

func (q *queue) some(most int) (keys []key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k := range q.waits {
		if len(keys) == most {
			break
		}
		keys = append(keys, k)
		delete(q.waits, k)
	}
	return keys
}
