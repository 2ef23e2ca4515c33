package extproc

import (
	"context"
	"fmt"
	"sync/atomic"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/compile"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/respcache"
	"github.com/modelgate/modelgate/internal/xdsclient"
)

// A configClient receives the configuration from the control plane and publishes it for exchanges.
type configClient struct {
	xds     *xdsclient.Client
	vendors map[string]provider.Provider
	answers *respcache.Redis // nil: answers are kept in memory
	log     *zap.Logger

	current atomic.Pointer[exchange.Config] // nil until every type has been received once

	// The fields below are used only by run's goroutine.
	building    exchange.Config          // its maps are copied before they change
	rules       compile.Rules            // that it has
	stale       bool                     // its index is out of date
	keysChanged map[string]*configv1.Key // since the keyring was made; nil for removed keys
}

func newConfigClient(o Options) *configClient {
	c := &configClient{vendors: o.Vendors, answers: o.Answers, log: o.Logger.Named("config"),
		keysChanged: map[string]*configv1.Key{}}
	c.building.Catalog = catalog.New(nil)
	c.xds = xdsclient.New(xdsclient.Options{
		Conn: o.XDS, NodeID: o.NodeID, Role: envoy.RoleExtProc, Logger: c.log, Registerer: o.Registerer, Publish: c.publish,
		Types: []*xdsclient.Type{
			c.settings(), c.keys(), c.organizations(), c.projects(), c.rateLimits(),
			c.providers(), c.models(), c.listings(), c.routes(), c.catalog(),
		},
	})
	return c
}

// run follows the control plane until ctx ends.
func (c *configClient) run(ctx context.Context) { c.xds.Run(ctx) }

func (c *configClient) settings() *xdsclient.Type {
	return xdsclient.Of(xdsclient.Handler[*configv1.Settings]{
		Remove: func(string) {},
		Set: func(_ string, s *configv1.Settings) error {
			rules, err := c.rules.Next(s, compile.Options{Answers: c.answers, Log: c.log})
			if err != nil {
				return err // those before stay in force; before the first ones there is nothing to serve with
			}
			c.rules, c.building.Rails, c.building.Policies = rules, rules.Guardrails, rules.Policies
			c.building.Checkers, c.building.Caches, c.building.Tokens = rules.Checkers, rules.Caches, rules.Tokens
			c.building.Certificates = access.CertificatesOf(s.GetCertificateIssuers(), c.building.Certificates)
			c.building.Hasher = auth.NewHasher(s.GetKeyPepper())
			c.building.Carriers = openai.NewCarrierKey(s.GetKeyPepper())
			c.building.StoresResponses = s.GetStoresResponses()
			return nil
		},
	})
}

func (c *configClient) keys() *xdsclient.Type {
	return xdsclient.Of(xdsclient.Handler[*configv1.Key]{
		Remove: func(name string) { c.keysChanged[name] = nil },
		Set: func(name string, k *configv1.Key) error {
			if err := k.CheckHashes(); err != nil {
				return err
			}
			c.keysChanged[name] = k
			return nil
		},
	})
}

func (c *configClient) organizations() *xdsclient.Type {
	return mapped(&c.building.Organizations)
}

func (c *configClient) projects() *xdsclient.Type { return mapped(&c.building.Projects) }

func (c *configClient) rateLimits() *xdsclient.Type {
	return xdsclient.Of(xdsclient.Handler[*rlsv3.RateLimitConfig]{
		Fork:   func() { c.building.RateLimits = xdsclient.Fork(c.building.RateLimits) },
		Remove: func(name string) { delete(c.building.RateLimits, name) },
		Set: func(name string, m *rlsv3.RateLimitConfig) error {
			l, err := access.NewRateLimit(m)
			if err != nil {
				return err
			}
			c.building.RateLimits[name] = l
			return nil
		},
	})
}

// mapped returns a type whose resources are stored unchanged, by name.
func mapped[M proto.Message](kept *map[string]M) *xdsclient.Type {
	return xdsclient.Of(xdsclient.Handler[M]{
		Fork:   func() { *kept = xdsclient.Fork(*kept) },
		Remove: func(name string) { delete(*kept, name) },
		Set: func(name string, m M) error {
			(*kept)[name] = m
			return nil
		},
	})
}

func (c *configClient) providers() *xdsclient.Type {
	return xdsclient.Of(xdsclient.Handler[*configv1.ResolvedProvider]{
		Fork:   func() { c.building.Providers, c.stale = xdsclient.Fork(c.building.Providers), true },
		Remove: func(name string) { delete(c.building.Providers, name) },
		Set: func(name string, r *configv1.ResolvedProvider) error {
			vendor, ok := c.vendors[r.GetProvider().GetVendor()]
			if !ok {
				return fmt.Errorf("unknown vendor %q", r.GetProvider().GetVendor())
			}
			p, err := routing.NewProvider(r, vendor)
			if err != nil {
				return err
			}
			c.building.Providers[name] = p
			return nil
		},
	})
}

func (c *configClient) models() *xdsclient.Type {
	return xdsclient.Of(xdsclient.Handler[*configv1.Model]{
		Fork:   func() { c.building.Models, c.stale = xdsclient.Fork(c.building.Models), true },
		Remove: func(name string) { delete(c.building.Models, name) },
		Set: func(name string, m *configv1.Model) error {
			c.building.Models[name] = m
			return nil
		},
	})
}

func (c *configClient) listings() *xdsclient.Type {
	return xdsclient.Of(xdsclient.Handler[*configv1.Listing]{
		Fork:   func() { c.building.Listings, c.stale = xdsclient.Fork(c.building.Listings), true },
		Remove: func(name string) { delete(c.building.Listings, name) },
		Set: func(name string, l *configv1.Listing) error {
			c.building.Listings[name] = l
			return nil
		},
	})
}

func (c *configClient) routes() *xdsclient.Type {
	configured := make(map[string]*configv1.Route)
	return xdsclient.Of(xdsclient.Handler[*configv1.Route]{
		Remove: func(name string) {
			delete(configured, name)
			c.building.Routes = routing.NewRoutes(configured)
		},
		Set: func(name string, r *configv1.Route) error {
			configured[name] = r
			c.building.Routes = routing.NewRoutes(configured)
			return nil
		},
	})
}

func (c *configClient) catalog() *xdsclient.Type {
	return xdsclient.Of(xdsclient.Handler[*configv1.Catalog]{
		Remove: func(string) { c.building.Catalog = catalog.New(nil) },
		Set: func(_ string, m *configv1.Catalog) error {
			c.building.Catalog = catalog.New(m)
			return nil
		},
	})
}

func (c *configClient) publish(revision string) {
	if c.building.Hasher == nil {
		return // without the pepper, keys cannot be checked
	}
	if c.stale {
		c.building.Index()
		c.stale = false
	}
	if len(c.keysChanged) > 0 || c.building.Keyring == nil {
		c.building.Keyring = c.building.Keyring.With(c.keysChanged)
		c.keysChanged = map[string]*configv1.Key{}
	}
	next := c.building
	if c.current.Swap(&next) == nil {
		c.log.Info("configuration received", zap.String("revision", revision),
			zap.Int("providers", len(next.Providers)), zap.Int("models", len(next.Models)), zap.Int("keys", next.Keyring.Len()))
	}
}
