package fakeprovider

import (
	"slices"
	"sync"
	"time"
)

// Bounds of the memory; the oldest entry goes first.
const (
	maxControls = 1000
	maxRecent   = 1000
	maxDeleted  = 1000
)

// memory holds what no id can carry: what was done to a job or a model after it was made. It is lost with the process:
// a job that was cancelled then ends like any other, and a model that was deleted answers again. It is safe for
// concurrent use.
type memory struct {
	mu       sync.Mutex // guards all below
	controls bounded[control]
	recent   bounded[struct{}] // ids of jobs
	deleted  bounded[struct{}] // names of models
}

func newMemory() *memory {
	return &memory{controls: bounded[control]{max: maxControls}, recent: bounded[struct{}]{max: maxRecent},
		deleted: bounded[struct{}]{max: maxDeleted}}
}

// A control is an action on a job.
type control struct {
	cancelled time.Time
	paused    time.Time     // while it is paused
	lost      time.Duration // in pauses that are over
}

// controlOf returns what was done to a job.
func (m *memory) controlOf(id string) control {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.controls.values[id]
}

// change does something to a job, unless do says that it is too late.
func (m *memory) change(id string, do func(control) (control, bool)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := do(m.controls.values[id])
	if ok {
		m.controls.put(id, c)
	}
	return ok
}

// made remembers a job.
func (m *memory) made(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recent.put(id, struct{}{})
}

// jobs returns the ids of the jobs that are remembered, newest first.
func (m *memory) jobs() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := slices.Clone(m.recent.order)
	slices.Reverse(ids)
	return ids
}

// forget deletes a model, unless it is deleted already.
func (m *memory) forget(model string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, gone := m.deleted.values[model]
	m.deleted.put(model, struct{}{})
	return !gone
}

// forgotten reports whether a model was deleted.
func (m *memory) forgotten(model string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, gone := m.deleted.values[model]
	return gone
}

// bounded is a map that drops what was put first.
type bounded[V any] struct {
	max    int
	values map[string]V
	order  []string
}

func (b *bounded[V]) put(key string, v V) {
	if b.values == nil {
		b.values = map[string]V{}
	}
	if _, known := b.values[key]; !known {
		b.order = append(b.order, key)
		if len(b.order) > b.max {
			delete(b.values, b.order[0])
			b.order = slices.Delete(b.order, 0, 1)
		}
	}
	b.values[key] = v
}
