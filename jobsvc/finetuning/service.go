// Package finetuning serves fine-tuning jobs: it hands them to the provider that has their base model, mirrors how
// they stand there, and makes what comes out a model that can be called.
//
// Handlers never ask the provider. They read the job's record and write into it what the client
// wants; the one worker that has claimed the job carries that out, and notes each step before and after it, so that a
// worker that takes the job up later knows what may have been done already.
package finetuning

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"
	"gocloud.dev/blob"
	"golang.org/x/sync/semaphore"

	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/quota"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// queueKind is the kind of the queue's items: one for each unfinished job.
const queueKind = "fine_tuning"

const (
	maxJobs    = 512 // that one replica looks after at once; one that waits costs a goroutine and a watch
	maxUploads = 8   // at once
)

// A Gateway asks Envoy's internal listener.
type Gateway interface {
	Find(ctx context.Context, key, model string) (string, error)
	MayUse(ctx context.Context, key, model string) (bool, error)
	Provider(p *config.Provider) *provider.Client
}

// Options configure a Service.
type Options struct {
	Store   *store.Store
	Bucket  *blob.Bucket
	Queue   *queue.Queue
	Gateway Gateway
	// Objects takes the models that are made.
	Objects *configstore.Store
	// Config returns the newest configuration, or nil if there is none yet.
	Config func() *config.Config
	Now    func() time.Time
	// Announce puts the news that something has happened to an object into a transaction. It may be nil.
	Announce func(t *store.Txn, tenant store.Tenant, event, id string, at time.Time)
	// MaxSuffix is the length of the longest suffix that a client may choose. 0: 18; OpenAI's own is 64.
	MaxSuffix int
	// Soon and Late are the shortest and longest pause before a provider is asked again how a job stands. 0: 1 s and 60
	// s.
	Soon, Late time.Duration
	// Appear is how long a job that has succeeded waits for its model to be known to the gateway. 0: 5 s.
	Appear time.Duration
	Gate   *quota.Gate    // nil: nothing bounds what tenants write
	Memory *memory.Budget // nil: nothing bounds what is in memory
	Log    *zap.Logger
}

// A Service is the fine-tuning of one replica. It is safe for concurrent use.
type Service struct {
	Options
	uploads *semaphore.Weighted // of the uploads that run at once
}

// New returns a service.
func New(o Options) *Service {
	if o.MaxSuffix == 0 {
		o.MaxSuffix = 18
	}
	if o.Soon == 0 {
		o.Soon = time.Second
	}
	if o.Late == 0 {
		o.Late = time.Minute
	}
	if o.Appear == 0 {
		o.Appear = 5 * time.Second
	}
	if o.Announce == nil {
		o.Announce = func(*store.Txn, store.Tenant, string, string, time.Time) {}
	}
	return &Service{Options: o, uploads: semaphore.NewWeighted(maxUploads)}
}

// Register adds the routes of the API.
func (s *Service) Register(mux *http.ServeMux) {
	for pattern, f := range map[string]rest.HandlerFunc{
		"POST /v1/fine_tuning/jobs":                 s.Gate.Create(s.create),
		"GET /v1/fine_tuning/jobs":                  s.list,
		"GET /v1/fine_tuning/jobs/{id}":             s.retrieve,
		"POST /v1/fine_tuning/jobs/{id}/cancel":     s.Gate.Change(s.cancel),
		"POST /v1/fine_tuning/jobs/{id}/pause":      s.Gate.Change(s.pause),
		"POST /v1/fine_tuning/jobs/{id}/resume":     s.Gate.Change(s.resume),
		"GET /v1/fine_tuning/jobs/{id}/events":      s.events,
		"GET /v1/fine_tuning/jobs/{id}/checkpoints": s.checkpoints,
	} {
		mux.Handle(pattern, rest.Handler(s.Log, s.Memory, f))
	}
}

// Run works on jobs until ctx ends and all that was begun is handed over.
func (s *Service) Run(ctx context.Context) { s.Queue.Work(ctx, queueKind, maxJobs, s.work) }
