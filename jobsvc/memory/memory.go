// Package memory bounds the bytes that the job service holds for its tenants: the bodies of their requests, what is
// read of their objects, and the answers of providers. Bytes are taken before they are read, and given back when they
// are written out. What finds no room waits a short time in order, and is then refused.
//
// No tenant may hold more than it leaves free, except that a single request may have half of all if a quarter remains.
// So one tenant alone has half of all, and however many take as much as they can, there is room for one that comes
// after them. Take as much as a step can need at once: a request that waits
// for the rest while it holds a part keeps others waiting too.
package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/modelgate/modelgate/api/openai"
)

const (
	// Total is the largest budget if the memory of the process has no limit.
	Total = 256 << 20
	// brief is how long a request waits for room, and patience how long a request waits whose provider was paid.
	brief, patience = 2 * time.Second, 30 * time.Second
	// small is what passes requests of its tenant that wait: they would not get much sooner what they want.
	small = 256 << 10
	// reserve is the part of all that a tenant's only request leaves free, which may have more than that. Otherwise a
	// large one would wait until nobody else holds anything.
	reserve = 4
	// maxWaiting is how many requests wait at once, and maxOwn how many of one tenant.
	maxWaiting, maxOwn = 512, 64
)

// Why a request is refused. They are labels of a metric.
const (
	reasonTotal = "total"
	reasonShare = "share"
)

// A Budget is the bytes that are held, by tenant. It is made by New and safe for concurrent use; nil has no bounds.
type Budget struct {
	total    int64
	refusals *prometheus.CounterVec

	mu       sync.Mutex // guards what follows
	held     int64
	byTenant map[string]int64
	waiting  []*waiter
}

type waiter struct {
	hold    *Hold
	bytes   int64
	granted chan struct{}
}

// New returns a budget of so many bytes. Its metrics are registered if r is not nil.
func New(total int64, r prometheus.Registerer) (*Budget, error) {
	b := &Budget{total: total, byTenant: map[string]int64{}, refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "modelgate_jobs_memory_refusals_total", Help: "Requests for which there was no memory, by reason.",
	}, []string{"reason"})}
	if r == nil {
		return b, nil
	}
	for _, reason := range []string{reasonShare, reasonTotal} {
		b.refusals.WithLabelValues(reason) // so that there is a rate from the first one on
	}
	for _, c := range []prometheus.Collector{b.refusals,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "modelgate_jobs_memory_bytes",
			Help: "Bytes that the job service holds for its tenants."}, func() float64 { return float64(b.Held()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "modelgate_jobs_memory_limit_bytes",
			Help: "Bytes that the job service may hold for its tenants."}, func() float64 { return float64(total) }),
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Held returns how many bytes are held.
func (b *Budget) Held() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// A Hold is one request's or one piece of work's part of a Budget. Nil holds nothing. It is safe for concurrent use.
type Hold struct {
	of     *Budget
	tenant string
	asked  int64 // guarded by of.mu, as is held
	held   int64 // of asked; a single request counts for half of all at most
	work   bool  // waits until its context ends
}

// Request returns the hold of a request of a tenant. It waits briefly.
func (b *Budget) Request(tenant string) *Hold { return b.hold(tenant, false) }

// Work returns the hold of work for a tenant that nobody waits for. It waits as long as it takes.
func (b *Budget) Work(tenant string) *Hold { return b.hold(tenant, true) }

func (b *Budget) hold(tenant string, work bool) *Hold {
	if b == nil {
		return nil
	}
	return &Hold{of: b, tenant: tenant, work: work}
}

// Take takes so many bytes more. The error is for the client, or ctx's. Work that holds something already is not
// refused, because nobody would see it.
func (h *Hold) Take(ctx context.Context, bytes int64) error {
	switch {
	case h == nil || !h.work:
		return h.take(ctx, bytes, brief)
	case h.holds() == 0:
		return h.take(ctx, bytes, 0)
	}
	err := h.take(ctx, bytes, patience)
	if Refused(err) {
		h.Owe(bytes)
		return nil
	}
	return err
}

// TakePaid is Take for the answer of a provider, which was paid for: it waits longer. Work can be refused, too.
func (h *Hold) TakePaid(ctx context.Context, bytes int64) error { return h.take(ctx, bytes, patience) }

// Await is Take that waits until ctx ends.
func (h *Hold) Await(ctx context.Context, bytes int64) error { return h.take(ctx, bytes, 0) }

func (h *Hold) holds() int64 {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	return h.asked
}

// take waits for so long; 0 is until ctx ends.
func (h *Hold) take(ctx context.Context, bytes int64, patience time.Duration) error {
	if h == nil || bytes <= 0 {
		return nil
	}
	b := h.of
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.waitingOf(h.tenant)
	if (own == 0 || bytes <= small) && b.grant(h, bytes) {
		return nil
	}
	if patience > 0 && (len(b.waiting) >= maxWaiting || own >= maxOwn) {
		return b.refuse(h, bytes)
	}
	w := &waiter{h, bytes, make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	err := w.wait(ctx, patience)
	b.mu.Lock()
	at := slices.Index(b.waiting, w)
	if at < 0 { // it was granted
		return nil
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	b.serve() // others of the tenant have waited behind it
	if err != nil {
		return err
	}
	return b.refuse(h, bytes)
}

// wait waits until it is granted or time is up. The error is ctx's.
func (w *waiter) wait(ctx context.Context, patience time.Duration) error {
	var late <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-w.granted:
	case <-late:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (b *Budget) waitingOf(tenant string) (n int) {
	for _, w := range b.waiting {
		if w.hold.tenant == tenant {
			n++
		}
	}
	return n
}

// more returns what a hold would have more if it had asked for so many bytes more.
func (h *Hold) more(bytes int64) int64 { return min(h.asked+bytes, h.of.total/2) - h.held }

// grant gives a hold what it asks for, unless there is no room.
func (b *Budget) grant(h *Hold, bytes int64) bool {
	more, own := h.more(bytes), b.byTenant[h.tenant]
	free := b.total - b.held - more
	alone := own == h.held && free >= b.total/reserve
	if more > 0 && own+more > free && !alone {
		return false
	}
	h.asked += bytes
	b.add(h, more)
	return true
}

func (b *Budget) add(h *Hold, bytes int64) {
	h.held += bytes
	b.held += bytes
	if b.byTenant[h.tenant] += bytes; b.byTenant[h.tenant] == 0 {
		delete(b.byTenant, h.tenant)
	}
}

// serve grants what waits and fits now. Only what is small passes a request of the same tenant.
func (b *Budget) serve() {
	behind := map[string]bool{}
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
		if behind[w.hold.tenant] && w.bytes > small || !b.grant(w.hold, w.bytes) {
			behind[w.hold.tenant] = true
			return false
		}
		close(w.granted)
		return true
	})
}

// refuse returns the error for the client: 429 if the tenant holds what it wants itself, otherwise 503.
func (b *Budget) refuse(h *Hold, bytes int64) error {
	if own := b.byTenant[h.tenant]; own+h.more(bytes) > b.total/2 || own > b.held-own {
		b.refusals.WithLabelValues(reasonShare).Inc()
		return openai.CodeRateLimitExceeded.New("Your other requests hold as much memory of the gateway's job service as they may. Please try again when one of them has ended.").After(time.Second)
	}
	b.refusals.WithLabelValues(reasonTotal).Inc()
	return openai.CodeServerIsOverloaded.New("There is no memory left for this at the moment. Please try again later.").After(time.Second)
}

// Give gives so many bytes back.
func (h *Hold) Give(bytes int64) {
	if h == nil || bytes <= 0 {
		return
	}
	b := h.of
	b.mu.Lock()
	defer b.mu.Unlock()
	h.asked = max(0, h.asked-bytes)
	b.add(h, min(h.asked, b.total/2)-h.held)
	b.serve()
}

// Mark returns a function that gives back the memory taken between the two calls, for reads in a loop.
func (h *Hold) Mark() (giveBack func()) {
	if h == nil {
		return func() {}
	}
	before := h.holds()
	return func() { h.Give(h.holds() - before) }
}

// Owe takes so many bytes even without room, for memory that is in use already.
func (h *Hold) Owe(bytes int64) {
	if h == nil || bytes <= 0 {
		return
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	more := h.more(bytes)
	h.asked += bytes
	h.of.add(h, more)
}

// Release gives everything back. It may be called more than once.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	h.Give(h.holds())
}
