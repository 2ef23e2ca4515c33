package xds

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/provider"
)

// An Input is a complete configuration with its secrets resolved. Build does not modify it, and keeps references to
// it.
type Input struct {
	// Providers hold their credentials in clear; their Provider has none.
	Providers []*configv1.ResolvedProvider
	Models    []*configv1.Model
	Gateways  []*configv1.Gateway
	// Certificates hold the chain itself in chain, and the private key in private_key.value.
	Certificates []*configv1.Certificate
	Routes       []*configv1.Route
	Catalogs     []*configv1.Catalog
	// JobServices hold the authorities themselves in tls.ca.
	JobServices []*configv1.JobService
	// Webhooks hold the secret itself in secret.value.
	Webhooks      []*configv1.Webhook
	Listings      []*configv1.Listing
	Organizations []*configv1.Organization
	Projects      []*configv1.Project
	RateLimits    []*configv1.RateLimit
	// Keys are only looked at, in any order, for what others say of them. There may be very many, so that each is checked
	// when it has changed: see CheckKey.
	Keys []*configv1.Key
	// Settings of the data plane; nil while there are none.
	Settings *configv1.Settings
}

// Options are what does not come from the configuration.
type Options struct {
	// Providers are the vendors, by name.
	Providers map[string]provider.Provider
	// SystemCA is the path, on Envoy's machine, of the PEM file with the certificate authorities that are trusted where
	// a provider names none, such as /etc/ssl/certs/ca-certificates.crt.
	SystemCA string
}

// Build returns the resources for in, sorted by role, type and name, and what is wrong with its objects, sorted by
// object. An object that cannot be built, or whose resources Envoy would refuse, is left out as a whole and the others
// are built. An object whose references lead nowhere is reported and built all the same: it works as soon as they do.
func Build(in Input, o Options) ([]Resource, []ObjectError) {
	b := &builder{options: o, providers: in.Providers, models: in.Models}
	b.strip = b.headersToStrip()
	b.add(Object{KindSystem, extProcFilter}, nil, b.extProc)
	for _, p := range in.Providers {
		b.add(Object{KindProvider, p.GetName()}, p, func() ([]Resource, error) { return b.provider(p) })
	}
	for _, m := range in.Models {
		b.add(Object{KindModel, m.GetName()}, m, func() ([]Resource, error) { return model(m) })
	}
	for _, r := range in.Routes {
		b.add(Object{KindRoute, r.GetName()}, r, func() ([]Resource, error) { return route(r) })
	}
	for _, c := range in.Catalogs {
		b.add(Object{KindCatalog, c.GetName()}, c, func() ([]Resource, error) { return catalog(c) })
	}
	for _, c := range in.Certificates {
		b.add(Object{KindCertificate, c.GetName()}, c, func() ([]Resource, error) { return certificate(c) })
	}
	for _, g := range in.Gateways {
		b.add(Object{KindGateway, g.GetName()}, g, func() ([]Resource, error) { return b.gateway(g) })
	}
	for _, s := range in.JobServices {
		b.add(Object{KindJobService, s.GetName()}, s, func() ([]Resource, error) { return b.jobService(s) })
	}
	for _, w := range in.Webhooks {
		b.add(Object{KindWebhook, w.GetName()}, w, func() ([]Resource, error) { return webhook(w) })
	}
	for _, l := range in.Listings {
		b.add(Object{KindListing, l.GetName()}, l, func() ([]Resource, error) { return modelListing(l) })
	}
	for _, x := range in.Organizations {
		b.add(Object{KindOrganization, x.GetName()}, x, func() ([]Resource, error) { return organization(x) })
	}
	for _, x := range in.Projects {
		b.add(Object{KindProject, x.GetName()}, x, func() ([]Resource, error) { return project(x) })
	}
	for _, l := range in.RateLimits {
		b.add(Object{KindRateLimit, l.GetName()}, l, func() ([]Resource, error) { return rateLimit(l) })
	}
	if s := in.Settings; s != nil {
		b.add(Object{KindSettings, s.GetName()}, s, func() ([]Resource, error) { return settings(s) })
	}
	b.errs = append(b.errs, references(in)...)
	sortResources(b.resources)
	sortErrors(b.errs)
	return b.resources, b.errs
}

// A builder holds what one call of Build needs in more than one place.
type builder struct {
	options   Options
	providers []*configv1.ResolvedProvider
	models    []*configv1.Model
	strip     []string // headers that no retry may inherit
	sockets   []socket // of the listeners so far

	resources []Resource
	errs      []ObjectError
}

// add builds an object and takes its resources only where all of them are valid.
func (b *builder) add(o Object, source proto.Message, build func() ([]Resource, error)) {
	rs, err := b.build(o, source, build)
	if err != nil {
		b.errs = append(b.errs, ObjectError{Object: o, Err: err})
		return
	}
	b.resources = append(b.resources, rs...)
}

func (b *builder) build(o Object, source proto.Message, build func() ([]Resource, error)) ([]Resource, error) {
	if o.Name == "" {
		return nil, fmt.Errorf("has no name")
	}
	// After this no string of the object can make a message unmarshalable; see pack.
	if err := validText(source); err != nil {
		return nil, err
	}
	rs, err := build()
	if err != nil {
		return nil, err
	}
	for i := range rs {
		rs[i].Owner, rs[i].Type = o, TypeURL(rs[i].Message)
		if rs[i].Role != envoy.RoleEnvoy {
			continue // its schema has no rules
		}
		if err := check(rs[i].Message); err != nil {
			return nil, fmt.Errorf("building %s %q: %w", proto.MessageName(rs[i].Message).Name(), rs[i].Name, err)
		}
	}
	return rs, nil
}

// gateway builds the listeners of a gateway and its routes.
func (b *builder) gateway(g *configv1.Gateway) ([]Resource, error) {
	if err := b.claim(g); err != nil {
		return nil, err
	}
	limit := &corev3.TypedExtensionConfig{Name: addressLimitName(g), TypedConfig: pack(addressLimit(g.GetAddressLimit()))}
	rs := []Resource{
		{Role: envoy.RoleEnvoy, Name: listenerName(g), Message: listener(g)},
		{Role: envoy.RoleEnvoy, Name: routesName(g), Message: b.routes(g)},
		{Role: envoy.RoleEnvoy, Name: addressLimitName(g), Message: limit},
	}
	if g.GetPlainHttpPort() != 0 {
		rs = append(rs, Resource{Role: envoy.RoleEnvoy, Name: plainListenerName(g), Message: plainListener(g)})
	}
	return rs, nil
}

// provider builds the clusters of a provider and what the ext_proc service and the job service are told about it;
// nothing for a disabled one. Only the ext_proc service is told about one that waits for its credential.
func (b *builder) provider(p *configv1.ResolvedProvider) ([]Resource, error) {
	if p.GetProvider().GetDisabled() {
		return nil, nil
	}
	target, err := b.target(p.GetProvider())
	if err != nil {
		return nil, err
	}
	resolved := resolvedProvider(p)
	resolved.Place = target.place
	if p.GetWaiting() {
		resolved.Provider.Disabled = true
		return []Resource{{Role: envoy.RoleExtProc, Name: p.GetName(), Message: resolved}}, nil
	}
	return append(b.clusters(target),
		Resource{Role: envoy.RoleExtProc, Name: p.GetName(), Message: resolved},
		Resource{Role: envoy.RoleJobs, Name: p.GetName(), Message: resolved.GetProvider()},
	), nil
}
