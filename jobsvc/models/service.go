// Package models deletes fine-tuned models, and lists the models of providers in the background.
//
// It does not answer GET /v1/models. The ext_proc service does, from the configuration, into which this package writes
// the models of providers: no client waits for a provider.
package models

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/quota"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A Gateway sends requests to Envoy's internal listener.
type Gateway interface {
	MayUse(ctx context.Context, key, model string) (bool, error)
	Provider(p *config.Provider) *provider.Client
}

// Options are the dependencies of a Service.
type Options struct {
	Store   *store.Store
	Queue   *queue.Queue
	Gateway Gateway
	// Objects has the fine-tuned models, and stores the Listings of providers.
	Objects *configstore.Store
	// Config returns the newest configuration, or nil if there is none yet.
	Config func() *config.Config
	// Interval is how often a provider is asked for its models. After a failure it is asked ten times as often. 0: 10
	// min.
	Interval time.Duration
	// Check is how soon a change of a provider's configuration is noticed. 0: 2 s.
	Check time.Duration
	// Vanish bounds the wait of a deletion for the gateway. 0: 5 s.
	Vanish time.Duration
	Gate   *quota.Gate    // nil: no quotas
	Memory *memory.Budget // nil: nothing bounds what is in memory
	Log    *zap.Logger
}

// A Service serves the models of one replica. It is safe for concurrent use.
type Service struct{ Options }

// New returns a service.
func New(o Options) *Service {
	if o.Interval == 0 {
		o.Interval = 10 * time.Minute
	}
	if o.Check == 0 {
		o.Check = 2 * time.Second
	}
	if o.Vanish == 0 {
		o.Vanish = 5 * time.Second
	}
	return &Service{o}
}

// Register adds the routes of the API.
func (s *Service) Register(mux *http.ServeMux) {
	mux.Handle("DELETE /v1/models/{id...}", rest.Handler(s.Log, s.Memory, s.Gate.Change(s.delete)))
}
