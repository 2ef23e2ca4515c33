// Package responses stores the responses and conversations of OpenAI's Responses API, for the models of every
// provider. A request that refers to stored state becomes one with the whole conversation in it, which needs no state.
// It goes through the gateway like a client's, with its limits, prices and fallbacks. The answer is passed on, and
// stored before its end is passed on.
//
// Of each object, a record in etcd names documents in the blob store, which are sealed. Documents are written before
// the record that names them, and removed after it. Lists of items are in pieces: see package items. A response holds
// everything before it, so that its predecessors may be deleted.
package responses

import (
	"context"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/quota"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A Gateway is what responses need of gateway.Gateway.
type Gateway interface {
	Ask(ctx context.Context, a gateway.Ask) (*http.Response, error)
}

// Options are the dependencies of a Service. All but Gate and Memory are required.
type Options struct {
	Store   *store.Store
	Bucket  *blob.Bucket
	Queue   *queue.Queue
	Gateway Gateway
	Config  func() *config.Config
	Now     func() time.Time
	Gate    *quota.Gate    // nil: nothing bounds what tenants write
	Memory  *memory.Budget // nil: nothing bounds what is in memory
	Limits  Limits
	Log     *zap.Logger
}

// Limits are the limits of one replica: its parallel work, and its waits. Fields that are 0 have the stated default.
type Limits struct {
	// Background is the number of background responses of one tenant that a replica asks at once. 64.
	Background int
	// Answer is how long a response may take. 1 h.
	Answer time.Duration
	// Flush is how often the events of a background response are written while they come. 500 ms.
	Flush time.Duration
	// Backoff is the pause before a provider that refused a background response is asked again; it grows fourfold. 1
	// s.
	Backoff time.Duration
}

func (l Limits) filled() Limits {
	if l.Background == 0 {
		l.Background = 64
	}
	if l.Answer == 0 {
		l.Answer = time.Hour
	}
	if l.Flush == 0 {
		l.Flush = 500 * time.Millisecond
	}
	if l.Backoff == 0 {
		l.Backoff = time.Second
	}
	return l
}

// A Service serves responses and conversations, and makes background responses. It is safe for concurrent use.
type Service struct {
	*state
	conversations *conversations
	turns         sync.Map // of store.Tenant, *semaphore.Weighted: the background responses that are asked at once
}

// New returns a service that does no work before Run.
func New(o Options) *Service {
	o.Limits = o.Limits.filled()
	kept := &state{Options: o, vault: &vault{bucket: o.Bucket, now: o.Now}}
	return &Service{state: kept, conversations: &conversations{kept}}
}

// Run makes background responses until ctx ends and all that was begun is handed over.
func (s *Service) Run(ctx context.Context) { s.Queue.Work(ctx, queueKind, maxClaims, s.work) }

// Register adds the routes of the API.
func (s *Service) Register(mux *http.ServeMux) {
	for pattern, f := range map[string]rest.HandlerFunc{
		"POST /v1/responses":                         s.Gate.Keep(s.create),
		"POST /v1/responses/compact":                 s.compact,
		"GET /v1/responses":                          s.list,
		"GET /v1/responses/{id}":                     s.retrieve,
		"DELETE /v1/responses/{id}":                  s.remove,
		"POST /v1/responses/{id}/cancel":             s.cancel,
		"GET /v1/responses/{id}/input_items":         s.inputItems,
		"POST /v1/conversations":                     s.Gate.Create(s.conversations.create),
		"GET /v1/conversations/{id}":                 s.conversations.retrieve,
		"POST /v1/conversations/{id}":                s.Gate.Create(s.conversations.update),
		"DELETE /v1/conversations/{id}":              s.Gate.Change(s.conversations.remove),
		"GET /v1/conversations/{id}/items":           s.conversations.listItems,
		"POST /v1/conversations/{id}/items":          s.Gate.Create(s.conversations.addItems),
		"GET /v1/conversations/{id}/items/{item}":    s.conversations.retrieveItem,
		"DELETE /v1/conversations/{id}/items/{item}": s.Gate.Change(s.conversations.removeItem),
	} {
		mux.Handle(pattern, rest.Handler(s.Log, s.Memory, f))
	}
}
