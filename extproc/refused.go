package extproc

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/internal/usage"
)

// Bounds on the refused requests of this process that have a row of their own in the request log. Strangers, who have
// no valid key, cannot use up what is for clients, and no key what is for others. The rest is counted.
const (
	strangersPerSecond, strangerBurst = 1, 50
	clientsPerSecond, clientBurst     = 10, 200
	keyPerSecond, keyBurst            = 1, 50
	// maxKeys bounds the keys whose bursts are known.
	maxKeys = 4096

	// countEvery is how often counts become rows.
	countEvery = 5 * time.Second
	// fineCounts is how many counts say which model was asked for and what an unknown key ends with. If there are more,
	// the others do not. If there are maxCounts, the others do not say whose key it is, and with twice as many not which
	// rule it was.
	fineCounts = 256
	maxCounts  = 4096
	// maxName bounds a name that a client sends.
	maxName = 256
)

// refusedRequests notes refused requests in the ledger: some by rows of their own, and all others in rows that count
// several.
type refusedRequests struct {
	spool              usage.Spool
	process            string
	noted              atomic.Uint64
	strangers, clients *rate.Limiter
	leftOut            *prometheus.CounterVec

	guard  sync.Mutex
	bursts map[string]*rate.Limiter // by key
	counts map[refusedKind]*refusedCount
}

// A refusedKind is what a count is of.
type refusedKind struct {
	minute                           int64
	status                           int
	key, hint, organization, project string
	operation, model, by, code       string
}

type refusedCount struct {
	n     int64
	first time.Time
}

func newRefusedRequests(r prometheus.Registerer, spool usage.Spool, process string) *refusedRequests {
	n := &refusedRequests{spool: spool, process: process, strangers: rate.NewLimiter(strangersPerSecond, strangerBurst),
		clients: rate.NewLimiter(clientsPerSecond, clientBurst), bursts: map[string]*rate.Limiter{},
		counts: map[refusedKind]*refusedCount{},
		leftOut: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_refusals_left_out_total",
			Help: "Refused requests that have no row of their own in the ledger because there were too many, but are counted in one, by whether the key is known: known, unknown."},
			[]string{"key"})}
	for _, key := range []string{"known", "unknown"} { // so that rates are visible from the start
		n.leftOut.WithLabelValues(key)
	}
	r.MustRegister(n.leftOut)
	return n
}

// note notes a request that the gateway has refused.
func (n *refusedRequests) note(r *metering.Record) {
	if n.spool == nil || r.RefusedBy == "" || r.Internal {
		return
	}
	if !n.hasRow(r) {
		key := "known"
		if r.Key == "" {
			key = "unknown"
		}
		n.leftOut.WithLabelValues(key).Inc()
		n.count(r)
		return
	}
	e := r.Entry()
	if e.Id == "" {
		e.Id = n.nextID()
	}
	n.spool.End(e)
}

func (n *refusedRequests) nextID() string {
	return n.process + "." + strconv.FormatUint(n.noted.Add(1), 36)
}

// hasRow reports whether a refused request gets a row of its own.
func (n *refusedRequests) hasRow(r *metering.Record) bool {
	if r.Key == "" {
		return n.strangers.AllowN(r.End, 1)
	}
	n.guard.Lock()
	burst := n.bursts[r.Key]
	if burst == nil {
		if len(n.bursts) == maxKeys {
			clear(n.bursts)
		}
		burst = rate.NewLimiter(keyPerSecond, keyBurst)
		n.bursts[r.Key] = burst
	}
	n.guard.Unlock()
	return burst.AllowN(r.End, 1) && n.clients.AllowN(r.End, 1)
}

// count counts a refused request.
func (n *refusedRequests) count(r *metering.Record) {
	k := refusedKind{minute: r.Start.Unix() / 60, status: r.Status, key: r.Key, hint: r.KeyHint,
		organization: r.Organization, project: r.Project, operation: r.Operation,
		model: r.Model[:min(len(r.Model), maxName)], by: r.RefusedBy, code: r.ErrorCode()}
	n.guard.Lock()
	defer n.guard.Unlock()
	c := n.counts[k]
	if c == nil && len(n.counts) >= fineCounts {
		k.model, k.hint, k.operation = "", "", ""
		c = n.counts[k]
	}
	if c == nil && len(n.counts) >= maxCounts {
		k.key, k.organization, k.project = "", "", ""
		c = n.counts[k]
	}
	if c == nil && len(n.counts) >= 2*maxCounts {
		k.by = "one of many rules"
		c = n.counts[k]
	}
	if c == nil {
		k.model, k.hint = strings.Clone(k.model), strings.Clone(k.hint) // they may be parts of the request
		c = &refusedCount{first: r.Start}
		n.counts[k] = c
	}
	c.n++
}

// flush makes rows of the counts.
func (n *refusedRequests) flush() {
	n.guard.Lock()
	counts := n.counts
	n.counts = map[refusedKind]*refusedCount{}
	n.guard.Unlock()
	for k, c := range counts {
		at := timestamppb.New(c.first)
		n.spool.End(&ledgerv1.Record{Id: n.nextID(), Start: at, End: at, Key: k.key, KeyHint: k.hint,
			Organization: k.organization, Project: k.project, Operation: k.operation, Model: k.model, RefusedBy: k.by,
			ErrorCode: k.code, Status: uint32(max(k.status, 0)), Outcome: string(metering.OutcomeRejected), Requests: c.n})
	}
}

// run makes rows of the counts until ctx ends. The caller then calls flush.
func (n *refusedRequests) run(ctx context.Context) { _ = timing.Every(ctx, countEvery, n.flush) }
