// Package queries answers questions of the admin API's callers about use, cost and findings. It reads the
// ledger, and the configuration's keys, prices, limits and budgets. It knows nothing of HTTP.
//
// The ledger does not know who asks. What the caller may not see is left out here or by the restrictions of the query,
// never by the page that shows it.
package queries

import (
	"context"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/turns"
)

// A Plane is the control plane's knowledge. It must be safe for concurrent use.
type Plane interface {
	// ObjectError returns why an object, or its last change, has no effect, and "" if it has.
	ObjectError(kind, name string) string
	// Keys returns every key by name, as they were last read, and at which revision; none before they were. They are
	// searched in, and not modified.
	Keys() (revision int64, keys map[string]configv1.Object)
	// DataPlane returns how those stand that are connected to any control plane of this etcd, without the version.
	DataPlane(ctx context.Context) adminapi.DataPlane
	// Chains returns the certificates in use, as PEM by name.
	Chains() map[string][]byte
}

// Options configure a Service. Every field is required unless its comment says otherwise.
type Options struct {
	Store  *configstore.Store
	Config *config.Service
	Plane  Plane
	// Vendors are the vendors that providers may have.
	Vendors configv1.Vendors
	// Ledger may be nil: then only what needs none may be asked.
	Ledger *ledger.Ledger
	// Sinks are the sinks of the audit log. Nil: there are none.
	Sinks audit.Sinks
	// Running are the batches that are not over. Nil: they are not known.
	Running Running
	// Now is the clock of facts. Nil: the system's.
	Now func() time.Time
}

// Running are the batches that are not over. It must be safe for concurrent use.
type Running interface {
	// Running returns the oldest that the job service is to answer.
	Running(ctx context.Context) ([]adminapi.RunningBatch, error)
}

// Service answer questions. They are safe for concurrent use.
type Service struct {
	History   History
	options   Options
	attentive shared[[]adminapi.Attention]
	budgeted  shared[[]adminapi.BudgetUse]
	trials    *turns.Turns // of those who try policies
}

// New returns a service.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{History: History{o.Config}, options: o, trials: turns.New(maxTrials, maxTrialQueue)}
}

// ObjectError returns why a stored object has no effect, and "" if it has.
func (q *Service) ObjectError(e configstore.Entry) string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return q.options.Plane.ObjectError(e.Kind.Name, e.Name)
}
