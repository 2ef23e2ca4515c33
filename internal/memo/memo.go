// Package memo caches computed values, up to a bound.
//
// Values are not evicted one by one: at the bound, all are dropped. Many names come from clients, so an order of
// eviction would not help.
package memo

import "sync"

// A Memo remembers at most Limit values by their keys. It is made by New and safe for concurrent use.
type Memo[K comparable, V any] struct {
	limit int

	mu    sync.RWMutex // guards what follows
	known map[K]V
}

// New returns a Memo that remembers nothing yet.
func New[K comparable, V any](limit int) *Memo[K, V] {
	return &Memo[K, V]{limit: limit, known: map[K]V{}}
}

// Find returns the value of a key, and whether it is remembered.
func (m *Memo[K, V]) Find(key K) (V, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok := m.known[key]
	return v, ok
}

// Keep remembers a value and returns it.
func (m *Memo[K, V]) Keep(key K, value V) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= m.limit {
		clear(m.known)
	}
	m.known[key] = value
	return value
}

// Len returns how many values are remembered.
func (m *Memo[K, V]) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.known)
}
