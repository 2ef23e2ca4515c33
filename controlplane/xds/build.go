package xds

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/provider"
)

// An Input is a complete configuration with resolved secrets. Build does not modify it, and keeps references to it.
type Input struct {
	// Providers have their credentials in clear text beside the Provider, which has none.
	Providers []*configv1.ResolvedProvider
	Models    []*configv1.Model
	Gateways  []*configv1.Gateway
	// Certificates have the chain in chain, and the private key in private_key.value.
	Certificates []*configv1.Certificate
	Routes       []*configv1.Route
	Catalogs     []*configv1.Catalog
	// JobServices have the authorities in tls.ca.
	JobServices []*configv1.JobService
	// Webhooks have the secret in secret.value.
	Webhooks      []*configv1.Webhook
	Listings      []*configv1.Listing
	Organizations []*configv1.Organization
	Projects      []*configv1.Project
	RateLimits    []*configv1.RateLimit
	// CertificateIssuers are the issuers that are not disabled.
	CertificateIssuers []*configv1.CertificateIssuer
	// Keys are only used to check references to them, in any order. There may be very many, so each is checked when it
	// changes: see CheckKey.
	Keys []*configv1.Key
	// Settings of the data plane; may be nil.
	Settings *configv1.Settings
	// JobSecrets are for the job service; may be nil.
	JobSecrets *configv1.JobSecrets
	// Responses tells the job service to store responses; nil: it stores none.
	Responses *configv1.ResponseStore
}

// Options are the inputs besides the configuration.
type Options struct {
	// Providers are the vendors, by name.
	Providers map[string]provider.Provider
	// SystemCA is the path, on Envoy's machine, of the PEM file with the authorities for providers without their own,
	// such as /etc/ssl/certs/ca-certificates.crt.
	SystemCA string
}

// Build returns the resources for in, sorted by role, type and name, and the errors in its objects, sorted by object.
// An object that cannot be built, or whose resources Envoy would refuse, is omitted as a whole. An object with missing
// references is reported and built nevertheless: it works as soon as they exist.
func Build(in Input, o Options) ([]Resource, []ObjectError) {
	objects, errs := NewBuilder(o).Build(in)
	var resources []Resource
	for _, built := range objects {
		resources = append(resources, built.Resources...)
	}
	sortResources(resources)
	return resources, errs
}

// A Builder remembers what objects were built to: an object that is the same message as at the time before is not
// built again. It is used by one goroutine.
type Builder struct {
	options Options
	known   map[Object]*Built
	last    []*Built // known, in the order of the time before
}

// NewBuilder returns a Builder that remembers nothing yet.
func NewBuilder(o Options) *Builder { return &Builder{options: o, known: map[Object]*Built{}} }

// Built has the resources of one object. It is immutable.
type Built struct {
	Object    Object
	Resources []Resource // at least one

	// Resources and err depend on these two alone.
	source  proto.Message
	context string
	err     error
}

// Build is [Build] with the resources of each object on their own, in any order. What is the same as at the time
// before is the same pointer.
func (m *Builder) Build(in Input) ([]*Built, []ObjectError) {
	b := &builder{options: m.options, providers: in.Providers, models: in.Models, known: m.known,
		last: m.last, used: make([]*Built, 0, len(m.last)), objects: make([]*Built, 0, len(m.last))}
	b.strip = b.headersToStrip()
	b.buildAll(in)
	b.forget()
	m.last = b.used
	b.errs = append(b.errs, references(in)...)
	sortErrors(b.errs)
	return b.objects, b.errs
}

// A builder is the state of one call of Build.
type builder struct {
	options   Options
	providers []*configv1.ResolvedProvider
	models    []*configv1.Model
	strip     []string // headers that a retry must not inherit
	sockets   []socket // of the listeners so far

	known   map[Object]*Built
	last    []*Built // that may be next, of the time before
	used    []*Built // of known, in this call
	objects []*Built
	errs    []ObjectError
}

func (b *builder) buildAll(in Input) {
	strip := strings.Join(b.strip, " ")
	b.remember(Object{KindSystem, extProcFilter}, nil, "", b.extProc)
	for _, p := range in.Providers {
		b.remember(Object{KindProvider, p.GetName()}, p, strip, func() ([]Resource, error) { return b.provider(p) })
	}
	each(b, KindModel, in.Models, model)
	each(b, KindRoute, in.Routes, route)
	each(b, KindCatalog, in.Catalogs, catalog)
	each(b, KindCertificate, in.Certificates, certificate)
	idle := b.longestIdle()
	each(b, KindIssuer, in.CertificateIssuers, clientAuthorities)
	for _, g := range in.Gateways {
		claimed, clients, paths := b.claim(g), issuerFor(g, in.CertificateIssuers), pathsOf(g, in.Routes)
		b.remember(Object{KindGateway, g.GetName()}, g, fmt.Sprint(idle, claimed, clients.GetRequired(),
			clients.GetProxies(), clients != nil, paths), func() ([]Resource, error) {
			if claimed != nil {
				return nil, claimed
			}
			return b.gateway(g, clients, paths), nil
		})
	}
	for _, s := range in.JobServices { // the last that takes a socket
		b.remember(Object{KindJobService, s.GetName()}, s, fmt.Sprint(idle, b.sockets),
			func() ([]Resource, error) { return b.jobService(s) })
	}
	each(b, KindWebhook, in.Webhooks, webhook)
	each(b, KindListing, in.Listings, modelListing)
	each(b, KindOrganization, in.Organizations, organization)
	each(b, KindProject, in.Projects, project)
	each(b, KindRateLimit, in.RateLimits, rateLimit)
	if s := in.Settings; s != nil {
		each(b, KindSettings, []*configv1.Settings{s}, settings)
	}
	if s := in.JobSecrets; s != nil {
		each(b, KindJobSecrets, []*configv1.JobSecrets{s}, jobSecrets)
	}
	if s := in.Responses; s != nil {
		each(b, KindResponses, []*configv1.ResponseStore{s}, responseStore)
	}
}

// each builds objects of a kind that depend on nothing but themselves.
func each[M configv1.Object](b *builder, kind string, objects []M, build func(M) ([]Resource, error)) {
	for _, o := range objects {
		b.remember(Object{kind, o.GetName()}, o, "", func() ([]Resource, error) { return build(o) })
	}
}

// remember adds an object, which is built where it or the context was another at the time before.
func (b *builder) remember(o Object, source proto.Message, context string, build func() ([]Resource, error)) {
	built := b.find(o)
	if built == nil || built.source != source || built.context != context {
		built = b.build(o, source, build)
		built.context = context
		b.known[o] = built
	}
	b.used = append(b.used, built)
	b.add(built)
}

// find returns the resources of an object, or nil. Objects mostly come in the same order as before, so that no map
// is needed.
func (b *builder) find(o Object) *Built {
	for i, next := range b.last[:min(len(b.last), 2)] { // one may be gone
		if next.Object == o {
			b.last = b.last[i+1:]
			return next
		}
	}
	return b.known[o]
}

// forget forgets the objects that were not used, if there are any.
func (b *builder) forget() {
	if len(b.known) == len(b.used) {
		return
	}
	clear(b.known)
	for _, built := range b.used {
		b.known[built.Object] = built
	}
}

func (b *builder) add(built *Built) {
	if built.err != nil {
		b.errs = append(b.errs, ObjectError{Object: built.Object, Err: built.err})
	}
	if len(built.Resources) > 0 {
		b.objects = append(b.objects, built)
	}
}

// build builds an object, and takes its resources only where all of them are valid.
func (b *builder) build(o Object, source proto.Message, build func() ([]Resource, error)) *Built {
	rs, err := b.resources(o, source, build)
	if err != nil {
		rs = nil
	}
	return &Built{Object: o, Resources: rs, source: source, err: err}
}

func (b *builder) resources(o Object, source proto.Message, build func() ([]Resource, error)) ([]Resource, error) {
	if o.Name == "" {
		return nil, fmt.Errorf("has no name")
	}
	// After this check, no string of the object can make a message unmarshalable; see pack.
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
			continue // the schema has no rules
		}
		if err := check(rs[i].Message); err != nil {
			return nil, fmt.Errorf("building %s %q: %w", proto.MessageName(rs[i].Message).Name(), rs[i].Name, err)
		}
	}
	return rs, nil
}

// gateway builds the listeners and routes of a gateway.
func (b *builder) gateway(g *configv1.Gateway, clients *configv1.CertificateIssuer, paths []path) []Resource {
	limit := &corev3.TypedExtensionConfig{Name: addressLimitName(g), TypedConfig: pack(addressLimit(g.GetAddressLimit()))}
	rs := []Resource{
		{Role: envoy.RoleEnvoy, Name: listenerName(g), Message: listener(g, clients)},
		{Role: envoy.RoleEnvoy, Name: routesName(g), Message: b.routes(g, paths)},
		{Role: envoy.RoleEnvoy, Name: addressLimitName(g), Message: limit},
	}
	if clients != nil {
		rs = append(rs, clientsExtProc(g))
	}
	if g.GetPlainHttpPort() != 0 {
		rs = append(rs, Resource{Role: envoy.RoleEnvoy, Name: plainListenerName(g), Message: plainListener(g)})
	}
	return rs
}

// provider builds the clusters of a provider, and its resources for the ext_proc service and the job service. It
// builds nothing for a disabled provider. A provider that waits for its credential is only sent to the ext_proc
// service.
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
