// Package quota checks all writes of tenants at the job service: every write against the rate of its organization and
// project, and every creation against their quotas. The transaction itself checks the space in etcd.
//
// The gate only reads the quotas. The transaction that creates an object counts the usage and compares it with them
// (see store.Txn.Within), so that concurrent requests cannot exceed a quota.
package quota

import (
	"context"
	"errors"
	"net/http"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/memo"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	// fresh is how long quotas are cached: a change of the configuration takes effect after it.
	fresh = 2 * time.Second
	// maxAccounts bounds the cached accounts. Operators create them, not tenants.
	maxAccounts = 10_000
)

// Options are the dependencies of a Gate.
type Options struct {
	// Objects has the organizations and projects.
	Objects *configstore.Store
	Now     func() time.Time
	// Leaves returns how long after its end a job stops counting for an account, and when the next job does; zero: not
	// soon.
	Leaves func(ctx context.Context, q store.Quota, a store.Account) (after time.Duration, next time.Time, err error)
}

// A Gate checks all writes of tenants. It is safe for concurrent use. A nil Gate allows everything.
type Gate struct {
	Options
	quotas *memo.Memo[store.Account, read]
	leaves *memo.Memo[kept, leave]
	rates  rates
}

// read are cached quotas.
type read struct {
	quotas *configv1.Quotas
	at     time.Time
}

// New returns a gate.
func New(o Options) *Gate {
	return &Gate{Options: o, quotas: memo.New[store.Account, read](maxAccounts),
		leaves: memo.New[kept, leave](maxAccounts), rates: newRates()}
}

// Create wraps a handler that creates a stored object. It checks the caller's rate, and passes the bounds that the
// transaction has to check.
func (g *Gate) Create(f rest.HandlerFunc) rest.HandlerFunc {
	return g.handler(true, true, f)
}

// Keep wraps a handler that stores what an exchange of the gateway's leaves, which has limits of its own. It passes
// the bounds, but checks no rate.
func (g *Gate) Keep(f rest.HandlerFunc) rest.HandlerFunc {
	return g.handler(true, false, f)
}

// Change wraps a handler that changes, ends or removes an object. It checks the caller's rate, but no quotas.
func (g *Gate) Change(f rest.HandlerFunc) rest.HandlerFunc {
	return g.handler(false, true, f)
}

func (g *Gate) handler(creates, rated bool, f rest.HandlerFunc) rest.HandlerFunc {
	if g == nil {
		return f
	}
	return func(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
		all, err := g.of(r.Context(), c.Owner())
		if err != nil {
			return err
		}
		if rated {
			if err := g.rates.take(g.Now(), c.Owner().Accounts(), all); err != nil {
				return err
			}
		}
		if creates {
			c.Bounds = store.Bounds{}
			for a, q := range all {
				c.Bounds[a] = amounts(q)
			}
		}
		err = f(w, r, c)
		if over, ok := errors.AsType[*store.QuotaError](err); ok {
			return g.explained(r.Context(), over)
		}
		return err
	}
}

// Limits returns the quotas of an account.
func (g *Gate) Limits(ctx context.Context, a store.Account) (store.Amounts, error) {
	q, err := g.one(ctx, a)
	return amounts(q), err
}

// of returns the quotas of all accounts that an owner's objects count for.
func (g *Gate) of(ctx context.Context, o store.Owner) (map[store.Account]*configv1.Quotas, error) {
	all := map[store.Account]*configv1.Quotas{}
	for _, a := range o.Accounts() {
		q, err := g.one(ctx, a)
		if err != nil {
			return nil, err
		}
		all[a] = q
	}
	return all, nil
}

func (g *Gate) one(ctx context.Context, a store.Account) (*configv1.Quotas, error) {
	known, ok := g.quotas.Find(a)
	if now := g.Now(); !ok || now.Sub(known.at) > fresh || now.Before(known.at) {
		q, err := g.lookUp(ctx, a)
		if err != nil {
			return nil, err
		}
		known = g.quotas.Keep(a, read{q, now})
	}
	return known.quotas, nil
}

// lookUpTimeout bounds the reading of quotas: without etcd nothing can be written anyway.
const lookUpTimeout = 5 * time.Second

func (g *Gate) lookUp(ctx context.Context, a store.Account) (*configv1.Quotas, error) {
	o := ObjectOf(a)
	if _, ok := o.(*configv1.Key); ok {
		return configv1.QuotasOf(o), nil // keys have the defaults
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	e, err := g.Objects.Get(ctx, configv1.KindOf(o), o.GetName())
	switch {
	case errors.Is(err, configstore.ErrNotFound), err == nil &&
		e.Object == nil: // no object is needed, and a broken one says nothing
		return configv1.QuotasOf(o), nil
	case err != nil:
		return nil, err
	}
	return configv1.QuotasOf(e.Object), nil
}

// ObjectOf returns an empty configuration object with the kind and name of an account.
func ObjectOf(a store.Account) configv1.Object {
	switch {
	case a.Project != "":
		return &configv1.Project{Name: a.Organization + "/" + a.Project}
	case a.Organization != "":
		return &configv1.Organization{Name: a.Organization}
	}
	return &configv1.Key{Name: a.Key}
}

// amounts converts quotas for the store.
func amounts(q *configv1.Quotas) (a store.Amounts) {
	for _, quota := range store.AllQuotas() {
		a[quota] = int64(q.Get(quota.String())) //nolint:gosec // validated to be at most 2^50
	}
	return a
}
