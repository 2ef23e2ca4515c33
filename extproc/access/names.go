package access

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/modelgate/modelgate/internal/limit"
)

const (
	// maxCounters bounds the counters that clients of all tenants name, and maxTenantCounters those of one tenant.
	maxCounters       = 500_000
	maxTenantCounters = 100_000
	// runningName is how long the name of a counter of running requests is remembered after the last of them began.
	runningName = time.Hour
	// sweepNames is the least time between two searches for names that no counter needs any more.
	sweepNames = 5 * time.Second
)

// Names bounds the counters that clients name: a limit by user, or by model, has one for each value that a request
// says. A counter has its name until its window has ended. If there is no room for another, the requests of a key
// share some counters. A key gets at most half of its tenant's room, and a tenant at most half of all room, so that
// none takes the room of others. It is made by NewNames and safe for concurrent use. Nil has no bound.
type Names struct {
	now  func() time.Time
	seed maphash.Seed

	mu      sync.Mutex // guards the fields below
	tenants map[string]*tenantNames
	total   int
	swept   time.Time
}

// tenantNames are the names of a tenant's counters.
type tenantNames struct {
	names map[uint64]name
	keys  map[string]int // how many of them each key has brought
	swept time.Time
}

type name struct {
	key string // that has brought it
	end int64  // of its counter, in Unix nanoseconds
}

// NewNames returns Names that have no name yet.
func NewNames(now func() time.Time) *Names {
	return &Names{now: now, seed: maphash.MakeSeed(), tenants: map[string]*tenantNames{}}
}

// time returns the time, for admit. A request asks once.
func (n *Names) time() time.Time {
	if n == nil {
		return time.Time{}
	}
	return n.now()
}

// admit reports whether a counter that a request names, at a time, can exist now, and remembers its name.
func (n *Names) admit(e *entries, counter string, w limit.Window, at, now time.Time) bool {
	if n == nil {
		return true
	}
	lasts, hash := w.Lasts(), maphash.String(n.seed, counter)
	if w == limit.Now {
		lasts = runningName
	}
	end := at.Add(lasts).UnixNano()
	if end <= now.UnixNano() {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	of, key := n.of(tenantOf(e[entryOrganization], e[entryKey])), e[entryKey]
	if known, ok := of.names[hash]; ok {
		of.names[hash] = name{known.key, max(known.end, end)}
		return true
	}
	if n.isFull(of, key) {
		n.sweep(of, now)
		if n.isFull(of, key) {
			return false
		}
	}
	of.names[hash] = name{key, end}
	of.keys[key]++
	n.total++
	return true
}

func (n *Names) of(tenant string) *tenantNames {
	of := n.tenants[tenant]
	if of == nil {
		of = &tenantNames{names: map[uint64]name{}, keys: map[string]int{}}
		n.tenants[tenant] = of
	}
	return of
}

// isFull reports whether there is no room for another name of a key.
func (n *Names) isFull(of *tenantNames, key string) bool {
	return of.keys[key]+len(of.names) >= min(maxTenantCounters, maxCounters-n.total)
}

// sweep forgets the names of a tenant, or of all if they are many, whose counters have ended.
func (n *Names) sweep(of *tenantNames, now time.Time) {
	if now.Sub(of.swept) >= sweepNames {
		n.total -= of.sweep(now)
	}
	if n.total < maxCounters/2 || now.Sub(n.swept) < sweepNames {
		return
	}
	n.swept = now
	for tenant, other := range n.tenants {
		n.total -= other.sweep(now)
		if len(other.names) == 0 && other != of {
			delete(n.tenants, tenant)
		}
	}
}

func (of *tenantNames) sweep(now time.Time) (gone int) {
	of.swept = now
	for hash, name := range of.names {
		if now.UnixNano() < name.end {
			continue
		}
		delete(of.names, hash)
		if of.keys[name.key]--; of.keys[name.key] == 0 {
			delete(of.keys, name.key)
		}
		gone++
	}
	return gone
}
