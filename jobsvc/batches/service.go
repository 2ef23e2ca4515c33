// Package batches runs batches: it checks the input line by line, asks each line through Envoy on behalf of the key
// that made the batch, and writes what was answered into an output and an error file. Lines of one batch may name
// several models.
//
// The record in etcd has a bounded size, whatever the input. Answers are gathered in memory and written in groups:
// first as a segment, an immutable blob that names the segment before it, then as one transaction that makes it the
// head of that chain and counts its lines. A line is done when that transaction is, and not before; who takes a batch
// up reads the chain and asks what it does not hold. The files are written from the chain once it cannot grow any
// more, under ids that are in the record by then, so that doing it again gives the same files.
//
// Whatever one worker knows may be out of date. Every write of the record goes through
// [work.change], which requires that the claim is still held, and is repeated on top of what the API has changed
// meanwhile.
package batches

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"gocloud.dev/blob"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/quota"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A Gateway is what batches need of gateway.Gateway.
type Gateway interface {
	Ask(ctx context.Context, a gateway.Ask) (*http.Response, error)
	Find(ctx context.Context, key, model string) (string, error)
	Provider(p *config.Provider) *provider.Client
}

// Options configure a Service. Announce may be nil.
type Options struct {
	Store   *store.Store
	Bucket  *blob.Bucket
	Queue   *queue.Queue
	Gateway Gateway
	// Objects says which limits and budgets there are.
	Objects *configstore.Store
	// Ledger gets records of the work that providers run by themselves.
	Ledger ledgerv1.LedgerClient
	Config func() *config.Config
	Now    func() time.Time
	// Announce announces an event to webhooks once a transaction is committed.
	Announce func(t *store.Txn, tenant store.Tenant, event, id string, at time.Time)
	Limits   Limits
	Gate     *quota.Gate    // nil: nothing bounds what tenants write
	Memory   *memory.Budget // nil: nothing bounds what is in memory
	// Shedding reports whether no line is to be asked now, for want of memory. Nil: never.
	Shedding   func() bool
	Log        *zap.Logger
	Registerer prometheus.Registerer
	Tracer     trace.Tracer // nil: no spans are made
}

// Limits are the limits of one replica: its parallel work, and its waits. Fields that are 0 have the stated default.
type Limits struct {
	// Batches that are run line by line at once. 16.
	Batches int
	// Lines of one model that are asked at once, in all batches of all keys together. 64.
	Lines int
	// Open is how many lines of one batch are at most queued, asked, or answered without being durable: as many are asked
	// again at most if a worker is killed. Twice Lines and 384, which is room for the answers of one commit.
	Open int
	// TokensPerMinute of one model, estimated before a line is asked and settled after. 0: no limit.
	TokensPerMinute int
	// Bytes of requests and answers that are held in memory, in all batches together. 64 MiB.
	Bytes int64
	// Window is the time from a batch's creation to its expiry. 24 h.
	Window time.Duration
	// Grace is for how long lines in flight are waited for after a cancel or at the expiry. 10 s.
	Grace time.Duration
	// Goodbye is for how long they are waited for when the replica stops, and then for their answers to be written. 3 s.
	Goodbye time.Duration
	// Line is how long one try of a line may take. 15 min.
	Line time.Duration
	// Backoff is the pause before the second try of a line; it grows fourfold. 1 s.
	Backoff time.Duration
	// Poll is the pause before a provider is first asked how a batch of its own stands; it grows to thirty times that. 10
	// s.
	Poll time.Duration
	// Settle is how long a provider's own batch that was asked to stop is waited for. 10 min.
	Settle time.Duration
}

func (l Limits) filled() Limits {
	l.Batches = either(l.Batches, 16)
	l.Lines = either(l.Lines, 64)
	l.Open = either(l.Open, 2*l.Lines+384)
	l.Bytes = either(l.Bytes, 64<<20)
	l.Window = either(l.Window, 24*time.Hour)
	l.Grace = either(l.Grace, 10*time.Second)
	l.Goodbye = either(l.Goodbye, 3*time.Second)
	l.Line = either(l.Line, 15*time.Minute)
	l.Backoff = either(l.Backoff, time.Second)
	l.Poll = either(l.Poll, 10*time.Second)
	l.Settle = either(l.Settle, 10*time.Minute)
	return l
}

// either returns v, or normal where v is 0.
func either[T int | int64 | time.Duration](v, normal T) T {
	if v == 0 {
		return normal
	}
	return v
}

// A Service serves the batches API and works on batches. It is safe for concurrent use.
type Service struct {
	Options
	metrics *metrics
	memory  *budget
	paces   *paces
}

// New returns a service that does no work before Run.
func New(o Options) (*Service, error) {
	o.Limits = o.Limits.filled()
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("batches: %w", err)
	}
	return &Service{Options: o, metrics: m, memory: newBudget(o.Limits.Bytes), paces: newPaces(o.Limits)}, nil
}

// Register adds the routes of the API.
func (s *Service) Register(mux *http.ServeMux) {
	mux.Handle("POST /v1/batches", rest.Handler(s.Log, s.Memory, s.Gate.Create(s.create)))
	mux.Handle("GET /v1/batches", rest.Handler(s.Log, s.Memory, s.list))
	mux.Handle("GET /v1/batches/{id}", rest.Handler(s.Log, s.Memory, s.get))
	mux.Handle("POST /v1/batches/{id}/cancel", rest.Handler(s.Log, s.Memory, s.Gate.Change(s.cancel)))
}

// kindQueue are the items of batches in the queue.
const kindQueue = "batch"

// Run works on batches until ctx ends and everything that was begun has been written or given up.
func (s *Service) Run(ctx context.Context) {
	var shipping sync.WaitGroup
	shipping.Go(func() { s.Queue.Work(ctx, kindCharge, shipAtOnce, s.ship) })
	shipping.Go(func() { s.Queue.Work(ctx, kindOwed, owedAtOnce, s.collectOwed) })
	s.Queue.Work(ctx, kindQueue, s.Limits.Batches, s.handle)
	shipping.Wait()
}

// shipAtOnce is how many records are on their way to the ledger at most.
const shipAtOnce = 4

// itemOf is what stands for a batch in the queue. It is due at a time, or at once if that is zero.
func itemOf(r *store.Record[Batch], due time.Time) queue.Item {
	value, err := json.Marshal(r.Tenant)
	if err != nil {
		value = []byte("{}") // a tenant is two strings
	}
	i := queue.Item{Kind: kindQueue, ID: r.ID, Value: value}
	if !due.IsZero() {
		i.NotBefore = due.Unix()
	}
	return i
}
