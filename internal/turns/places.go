package turns

import "sync"

// Places bound how much is open at the same time in this process, such as sessions. Nobody takes all of them: a key
// gets at most a third of what nobody else has, and the keys of a tenant together at most half. NewPlaces makes it. It
// is safe for concurrent use; nil has no bound.
type Places struct {
	places int

	mu      sync.Mutex // guards the fields below
	taken   int
	tenants map[string]int
	keys    map[string]int
}

// NewPlaces returns a number of places, which are free.
func NewPlaces(places int) *Places {
	return &Places{places: places, tenants: map[string]int{}, keys: map[string]int{}}
}

// Take takes a place for a key of a tenant. Without room for it, own reports whether others have room. The function
// release gives the place back, and is called once.
func (p *Places) Take(tenant, key string) (release func(), ok, own bool) {
	if p == nil {
		return func() {}, true, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if had := p.keys[key] + p.tenants[tenant]; had >= p.places-p.taken {
		return nil, false, had > 0
	}
	p.add(tenant, key, 1)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.add(tenant, key, -1)
	}, true, false
}

func (p *Places) add(tenant, key string, n int) {
	p.taken += n
	if p.tenants[tenant] += n; p.tenants[tenant] == 0 {
		delete(p.tenants, tenant)
	}
	if p.keys[key] += n; p.keys[key] == 0 {
		delete(p.keys, key)
	}
}
