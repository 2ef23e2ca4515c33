// Package config has the job service's part of the configuration: providers, models and webhooks, which the control
// plane serves over xDS.
//
// It has no credentials and no keys of clients. Requests to a provider go through Envoy's internal listener, which
// adds the credential and checks whether the key may use the model.
package config

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/xdsclient"
)

// A Config is one version of the configuration. It is immutable, and safe for concurrent use.
type Config struct {
	// Providers are the enabled providers, by name.
	Providers map[string]*Provider
	// Models are by their public names.
	Models map[string]*configv1.Model
	// Webhooks are the enabled webhooks, sorted by name. Their secrets are in clear text in secret.value.
	Webhooks []*configv1.Webhook
	// Catalog has facts about models; it may be nil.
	Catalog *catalog.Catalog
	// Carriers signs the data in the ids of calls; nil: the control plane has not sent its key.
	Carriers *openai.CarrierKey
	// Responses says how responses are stored; nil: they are not.
	Responses *Responses
}

// Responses says how long responses and conversations are stored, and seals them.
type Responses struct {
	Retention time.Duration
	Sealer    *secret.Sealer
}

// A Provider is a configured provider without its credential, with its vendor.
type Provider struct {
	Config *configv1.Provider
	Vendor provider.Provider
}

// Target returns the provider that normally serves a model, by its public name: the first enabled target of the Model
// by priority, or the provider of "<provider>/<model>". Upstream is the provider's own name of the model. It does not
// check whether a key may use the model. A nil Config has no models.
func (c *Config) Target(model string) (p *Provider, upstream string, ok bool) {
	if c == nil {
		return nil, "", false
	}
	if m := c.Models[model]; m != nil {
		var best *configv1.Target
		for _, t := range m.GetTargets() {
			if c.Providers[t.GetProvider()] != nil && (best == nil || t.GetPriority() < best.GetPriority()) {
				best = t
			}
		}
		return c.Providers[best.GetProvider()], best.GetModel(), best != nil
	}
	name, upstream, _ := strings.Cut(model, "/")
	p = c.Providers[name]
	if p == nil || upstream == "" || !p.Config.AllowsUnlisted() && !slices.Contains(p.Config.GetModels(), upstream) {
		return nil, "", false
	}
	return p, upstream, true
}

// At returns a provider's model as a target for codecs, with the catalog's facts.
func (c *Config) At(p *Provider, upstream string) provider.Target {
	t := provider.Target{Config: p.Config, Model: upstream}
	if c.Catalog != nil {
		t.Facts = c.Catalog.Facts(p.Vendor.Name, upstream)
	}
	return t
}

// Options are the dependencies of a Client. All are required.
type Options struct {
	// XDS is a connection to the control plane.
	XDS grpc.ClientConnInterface
	// NodeID names this process to the control plane.
	NodeID string
	// Vendors are the built-in providers, by name.
	Vendors    map[string]provider.Provider
	Logger     *zap.Logger
	Registerer prometheus.Registerer
}

// A Client follows the configuration of the control plane. It keeps the last one if the control plane is not
// available. It is safe for concurrent use.
type Client struct {
	vendors map[string]provider.Provider
	log     *zap.Logger
	xds     *xdsclient.Client
	current atomic.Pointer[Config]
	first   chan struct{} // closed when there is a configuration

	// The fields below are used only by Run's goroutine.
	building Config // its maps are copied before they change
	webhooks map[string]*configv1.Webhook
}

// New returns a Client without a configuration before Run.
func New(o Options) *Client {
	c := &Client{vendors: o.Vendors, log: o.Logger, webhooks: map[string]*configv1.Webhook{},
		first: make(chan struct{})}
	c.building.Catalog = catalog.New(nil)
	c.xds = xdsclient.New(xdsclient.Options{
		Conn: o.XDS, NodeID: o.NodeID, Role: envoy.RoleJobs, Logger: o.Logger, Registerer: o.Registerer, Publish: c.publish,
		Types: []*xdsclient.Type{xdsclient.Of(c.providersHandler()), xdsclient.Of(c.modelsHandler()),
			xdsclient.Of(c.hooksHandler()), xdsclient.Of(c.catalogHandler()), xdsclient.Of(c.responsesHandler()),
			xdsclient.Of(c.secretsHandler())},
	})
	return c
}

// Run follows the control plane until ctx ends. It must be called once.
func (c *Client) Run(ctx context.Context) { c.xds.Run(ctx) }

// Current returns the newest configuration, or nil if there is none yet.
func (c *Client) Current() *Config { return c.current.Load() }

// Await waits for the first configuration, or until ctx ends.
func (c *Client) Await(ctx context.Context) {
	select {
	case <-c.first:
	case <-ctx.Done():
	}
}

// No resource is refused here: the control plane would withdraw the object from the ext_proc service too, although
// it works there.

func (c *Client) providersHandler() xdsclient.Handler[*configv1.Provider] {
	return xdsclient.Handler[*configv1.Provider]{
		Fork:   func() { c.building.Providers = xdsclient.Fork(c.building.Providers) },
		Remove: func(name string) { delete(c.building.Providers, name) },
		Set: func(name string, p *configv1.Provider) error {
			delete(c.building.Providers, name)
			vendor, ok := c.vendors[p.GetVendor()]
			if !ok {
				c.log.Warn("a provider's vendor is not known to this version; it serves no jobs here",
					zap.String("provider", name), zap.String("vendor", p.GetVendor()))
			} else if !p.GetDisabled() {
				c.building.Providers[name] = &Provider{Config: p, Vendor: vendor.For(p)}
			}
			return nil
		},
	}
}

func (c *Client) modelsHandler() xdsclient.Handler[*configv1.Model] {
	return xdsclient.Handler[*configv1.Model]{
		Fork:   func() { c.building.Models = xdsclient.Fork(c.building.Models) },
		Remove: func(name string) { delete(c.building.Models, name) },
		Set: func(name string, m *configv1.Model) error {
			c.building.Models[name] = m
			return nil
		},
	}
}

func (c *Client) hooksHandler() xdsclient.Handler[*configv1.Webhook] {
	return xdsclient.Handler[*configv1.Webhook]{
		Remove: func(name string) { delete(c.webhooks, name) },
		Set: func(name string, w *configv1.Webhook) error {
			delete(c.webhooks, name)
			if !w.GetDisabled() {
				c.webhooks[name] = w
			}
			return nil
		},
	}
}

func (c *Client) catalogHandler() xdsclient.Handler[*configv1.Catalog] {
	return xdsclient.Handler[*configv1.Catalog]{
		Remove: func(string) { c.building.Catalog = catalog.New(nil) },
		Set: func(_ string, own *configv1.Catalog) error {
			c.building.Catalog = catalog.New(own)
			return nil
		},
	}
}

func (c *Client) responsesHandler() xdsclient.Handler[*configv1.ResponseStore] {
	return xdsclient.Handler[*configv1.ResponseStore]{
		Remove: func(string) { c.building.Responses = nil },
		Set: func(_ string, s *configv1.ResponseStore) error {
			sealer, err := secret.NewSealer(s.GetKey())
			if err != nil {
				return err
			}
			c.building.Responses = &Responses{Retention: s.GetRetention().AsDuration(), Sealer: sealer}
			return nil
		},
	}
}

func (c *Client) secretsHandler() xdsclient.Handler[*configv1.JobSecrets] {
	return xdsclient.Handler[*configv1.JobSecrets]{
		Remove: func(string) { c.building.Carriers = nil },
		Set: func(_ string, s *configv1.JobSecrets) error {
			c.building.Carriers = openai.CarrierKeyOf(s.GetCarrierKey())
			return nil
		},
	}
}

func (c *Client) publish(revision string) {
	next := c.building
	for _, name := range slices.Sorted(maps.Keys(c.webhooks)) {
		next.Webhooks = append(next.Webhooks, c.webhooks[name])
	}
	if c.current.Swap(&next) == nil {
		close(c.first)
		c.log.Info("configuration received", zap.String("revision", revision),
			zap.Int("providers", len(next.Providers)), zap.Int("models", len(next.Models)),
			zap.Int("webhooks", len(next.Webhooks)))
	}
}
