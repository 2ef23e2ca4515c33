package extproc

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/xdsclient"
)

// A configClient keeps the configuration that exchanges are decided by equal to what the control plane serves.
type configClient struct {
	xds     *xdsclient.Client
	vendors map[string]provider.Provider
	log     *zap.Logger

	current atomic.Pointer[exchange.Config] // nil until every type has come once

	// What follows is used by run's goroutine alone.
	building exchange.Config // its maps are copied before they change
	stale    bool            // its index is
}

func newConfigClient(o Options) *configClient {
	c := &configClient{vendors: o.Vendors, log: o.Logger.Named("config")}
	c.building.Catalog = catalog.New(nil)
	c.xds = xdsclient.New(xdsclient.Options{
		Conn: o.XDS, NodeID: o.NodeID, Role: envoy.RoleExtProc, Logger: c.log, Publish: c.publish,
		Types: []*xdsclient.Type{c.settings(), c.keys(), c.providers(), c.models(), c.listings(), c.routes(), c.catalog()},
	})
	return c
}

// run follows the control plane until ctx ends.
func (c *configClient) run(ctx context.Context) { c.xds.Run(ctx) }

func (c *configClient) settings() *xdsclient.Type {
	return xdsclient.Of(xdsclient.Handler[*configv1.Settings]{
		Remove: func(string) {},
		Set: func(_ string, s *configv1.Settings) error {
			c.building.Hasher = auth.NewHasher(s.GetKeyPepper())
			return nil
		},
	})
}

func (c *configClient) keys() *xdsclient.Type {
	remove := func(name string) {
		if k := c.building.KeyNames[name]; k != nil {
			delete(c.building.Keys, auth.Hash(k.GetHash()))
			delete(c.building.KeyNames, name)
		}
	}
	return xdsclient.Of(xdsclient.Handler[*configv1.Key]{
		Fork: func() {
			c.building.Keys, c.building.KeyNames = xdsclient.Fork(c.building.Keys), xdsclient.Fork(c.building.KeyNames)
		},
		Remove: remove,
		Set: func(name string, k *configv1.Key) error {
			if len(k.GetHash()) != 32 {
				return fmt.Errorf("hash has %d bytes, not 32", len(k.GetHash()))
			}
			remove(name)
			c.building.Keys[auth.Hash(k.GetHash())], c.building.KeyNames[name] = k, k
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
			p, err := exchange.NewProvider(r, vendor)
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
			c.building.Routes = exchange.NewRoutes(configured)
		},
		Set: func(name string, r *configv1.Route) error {
			configured[name] = r
			c.building.Routes = exchange.NewRoutes(configured)
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
		return // without the pepper no key can be checked
	}
	if c.stale {
		c.building.Index()
		c.stale = false
	}
	next := c.building
	if c.current.Swap(&next) == nil {
		c.log.Info("configuration received", zap.String("revision", revision),
			zap.Int("providers", len(next.Providers)), zap.Int("models", len(next.Models)), zap.Int("keys", len(next.Keys)))
	}
}
