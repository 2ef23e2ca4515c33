package api

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/queries"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/secret"
)

// Config configures the API. Every field is required unless its comment says otherwise.
type Config struct {
	Store *configstore.Store
	// Owners says by what objects are declared. Nil: by the admin API and files.
	Owners *configstore.OwnerIndex
	// Sealer seals credentials before they are stored.
	Sealer *secret.Sealer
	// Hasher hashes the keys and tokens that are made.
	Hasher *auth.Hasher
	// Token may do everything.
	Token secret.Value
	// Terminals returns whose command line sent a token that begins with [adminapi.SessionPrefix]; nil if it is not
	// signed in. Nil: nobody's.
	Terminals func(ctx context.Context, token string) (*configv1.Account, error)
	// Identity tests identity providers. Nil: they cannot be tested.
	Identity interface {
		Test(ctx context.Context, p *configv1.IdentityProvider) error
	}
	// Vendors are the vendors that providers may have.
	Vendors configv1.Vendors
	// Allowed says which variables and files objects may name. Nil: none.
	Allowed *allowed.List
	// Variable returns one of the control plane's environment. Nil: it is not looked whether variables that objects name
	// are set.
	Variable func(name string) (string, bool)
	Plane    Plane
	// Await returns when the data plane has taken a revision of the configuration, or when ctx ends: then it says who has
	// not. Nil: nothing is waited for.
	Await func(ctx context.Context, revision int64) []string
	// Audit takes an entry for every change.
	Audit *audit.Log
	// Ledger may be nil: what asks for it is then a 503.
	Ledger *ledger.Ledger
	Jobs   Jobs
	Batch  OneBatch
	Quotas Quotas
	// Running may be nil: nothing is known of batches that do not advance.
	Running queries.Running
	// Bodies are the kept bodies of exchanges. Nil: none are kept.
	Bodies Bodies
	// Alerts may be nil: what asks for them is then a 404.
	Alerts Alerts
	// Sinks are the sinks of the audit log. Nil: there are none.
	Sinks audit.Sinks
	// Now is the clock by which is judged what needs attention. Nil: the system's.
	Now func() time.Time
	// Version of this control plane.
	Version string
	Log     *zap.Logger
}

// service returns the options of the service that reads and changes the configuration.
func (c Config) service() config.Options {
	return config.Options{Store: c.Store, Audit: c.Audit, Sealer: c.Sealer, Hasher: c.Hasher, Vendors: c.Vendors,
		Allowed: c.Allowed, Variable: c.Variable, Keys: c.Plane.Keys, Log: c.Log}
}

// queries returns the queries of a configuration.
func (c Config) queries(changes *config.Service) *queries.Service {
	return queries.New(queries.Options{Store: c.Store, Config: changes, Plane: c.Plane, Vendors: c.Vendors,
		Ledger: c.Ledger, Sinks: c.Sinks, Running: c.Running, Now: c.Now})
}

// Jobs are the batches and fine-tuning jobs of all tenants. Lists take the options of [adminapi.Client]'s methods
// of the same names. It must be safe for concurrent use.
type Jobs interface {
	Batches(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.TenantObject], error)
	FineTuningJobs(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.TenantObject], error)
	// FineTuningJob returns one. The error is a 404 if there is none.
	FineTuningJob(ctx context.Context, id string) (adminapi.TenantObject, error)
	FineTuningEvents(ctx context.Context, id string, o adminapi.ListOptions) (adminapi.Page[json.RawMessage], error)
}

// OneBatch shows and cancels one batch of any tenant. It returns a 404 if there is none. It must be safe for
// concurrent use.
type OneBatch interface {
	Batch(ctx context.Context, id string) (adminapi.TenantObject, error)
	// CancelBatch asks for the end of a batch.
	CancelBatch(ctx context.Context, id string) (adminapi.TenantObject, error)
	// BatchFailures returns up to limit failed requests.
	BatchFailures(ctx context.Context, id string, limit int) ([]adminapi.BatchFailure, error)
	// BatchFile opens a file of a batch: input, output or error.
	BatchFile(ctx context.Context, id, which string) (name string, content io.ReadCloser, err error)
}

// Quotas are what tenants keep at the job service. It must be safe for concurrent use.
type Quotas interface {
	// Quotas returns how much organizations, projects and keys without an organization use of their quotas.
	Quotas(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.TenantQuotas], error)
}

// Bodies are the kept bodies of exchanges.
type Bodies interface {
	// Read returns those of an exchange, or [bodies.ErrNone].
	Read(ctx context.Context, id string) (*ledgerv1.KeptBodies, error)
	// Erase deletes those that a query selects, and returns of how many exchanges.
	Erase(ctx context.Context, q ledger.BodiesQuery) (int64, error)
}

// Alerts are the alerts and their receivers. It must be safe for concurrent use.
type Alerts interface {
	// Alerts returns all alerts, and how the receivers are.
	Alerts(ctx context.Context) (adminapi.Alerts, error)
	// History returns the newest events, the newest first.
	History(ctx context.Context) ([]adminapi.AlertEvent, error)
	// Test sends a test message to a receiver and returns what came of it.
	Test(ctx context.Context, r *configv1.AlertReceiver) adminapi.AlertTest
}

// A Plane is the control plane that the API belongs to. It must be safe for concurrent use.
type Plane interface {
	queries.Plane
	// TestProvider asks a provider with its credential.
	TestProvider(ctx context.Context, p *configv1.Provider) (adminapi.ProviderTest, error)
}
