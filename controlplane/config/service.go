// Package config reads and changes the configuration for callers of the admin API: plan, apply, history, export and
// approvals. It knows nothing of HTTP.
//
// Every change, also of a single object, uses the same steps (see Plan): read everything, apply the change, and
// validate the whole. One transaction then commits the change and the entries of the audit log, only if nothing else
// was written meanwhile. A change that adds an error is refused. Credentials are never returned: they are sealed
// before they are stored, and shown as "[redacted]", which means the stored credential if it is applied again.
package config

import (
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/turns"
)

// Options configure a Service. Every field is required unless its comment says otherwise.
type Options struct {
	Store *configstore.Store
	// Audit takes an entry for every change.
	Audit *audit.Log
	// Sealer seals credentials before they are stored.
	Sealer *secret.Sealer
	// Hasher hashes the keys and tokens that are made.
	Hasher *auth.Hasher
	// Vendors are the vendors that providers may have.
	Vendors configv1.Vendors
	// Allowed says which variables and files objects may name. Nil: none.
	Allowed *allowed.List
	// Variable returns one of the control plane's environment. Nil: it is not looked whether variables that objects name
	// are set.
	Variable func(name string) (string, bool)
	// Keys returns every key by name, as they were last read, and at which revision; none before they were. They are
	// searched in, and not modified.
	Keys func() (revision int64, keys map[string]configv1.Object)
	Log  *zap.Logger
}

// A Service reads and changes the configuration for callers of the admin API. It is safe for concurrent use.
type Service struct {
	options Options
	keys    keyIndex
	turn    *turns.Turns // of one: whoever writes
}

// New returns a service.
func New(o Options) *Service {
	return &Service{options: o, turn: turns.New(1, maxWriteQueue)}
}

// A Condition is asked whether an object may be changed, as it is stored for the caller. It gets nil if there is none.
type Condition func(stored *configstore.Entry) error
