package kubernetes

import (
	"maps"
	"slices"
	"sync"
)

// needs are what objects refer to, so that they are looked at anew when it changes. They are safe for concurrent use.
type needs struct {
	mu   sync.Mutex // guards what follows
	of   map[key][]key
	from map[key]map[key]bool
}

func newNeeds() *needs { return &needs{of: map[key][]key{}, from: map[key]map[key]bool{}} }

// set notes what an object refers to.
func (n *needs) set(k key, to []key) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.of[k] {
		delete(n.from[t], k)
		if len(n.from[t]) == 0 {
			delete(n.from, t)
		}
	}
	delete(n.of, k)
	if len(to) == 0 {
		return
	}
	n.of[k] = to
	for _, t := range to {
		if n.from[t] == nil {
			n.from[t] = map[key]bool{}
		}
		n.from[t][k] = true
	}
}

// users returns the objects that refer to one.
func (n *needs) users(of key) []key {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.from[of]))
}
