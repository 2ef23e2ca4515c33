package exchange

import (
	"fmt"
	"slices"
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
)

// A Config is all that exchanges are decided by. It is immutable once exchanges have it: a change of configuration makes
// another.
type Config struct {
	Hasher        *auth.Hasher
	Keyring       *access.Keyring
	Organizations map[string]*configv1.Organization
	Projects      map[string]*configv1.Project      // by "<organization>/<project>"
	RateLimits    map[string]*rlsv3.RateLimitConfig // by name
	Providers     map[string]*Provider
	Models        map[string]*configv1.Model
	Listings      map[string]*configv1.Listing // by provider
	Routes        Routes
	Catalog       *catalog.Catalog // nil: nothing is known of any model

	index *index
}

// A Provider is a configured provider with the codecs of its vendor.
type Provider struct {
	Config *configv1.Provider
	Vendor provider.Provider

	endpoint   provider.Endpoint
	anywhere   clusters // that lead wherever the provider is
	there      clusters // that lead where it is by this configuration; without a place the same
	credential secret.Value
	secrets    []secret.Value // the credential, and the parts of it that mean something by themselves
	quota      quota
	waiting    bool // for its credential; Config is disabled
}

// NewProvider resolves a provider as it came from the control plane.
func NewProvider(r *configv1.ResolvedProvider, vendor provider.Provider) (*Provider, error) {
	endpoint, err := vendor.Endpoint(r.GetProvider())
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	p := &Provider{Config: r.GetProvider(), Vendor: vendor, endpoint: endpoint, credential: secret.New(r.GetCredential()), waiting: r.GetWaiting()}
	p.nameClusters(r.GetPlace())
	p.secrets = secretsOf(strings.TrimSpace(r.GetCredential()))
	p.quota = quotaOf(p)
	return p, nil
}

// clusters are the names of a provider's clusters: of first attempts and of the others.
type clusters struct{ first, retry string }

// nameClusters sets the names of the clusters of a place.
func (p *Provider) nameClusters(place string) {
	p.anywhere = clusters{envoy.FirstCluster(p.Config.GetName()), envoy.RetryCluster(p.Config.GetName())}
	p.there = clusters{envoy.AtPlace(p.anywhere.first, place), envoy.AtPlace(p.anywhere.retry, place)}
}

// cluster returns the cluster of the n-th attempt, where Envoy has them by place, of those that lead where the provider is by this
// configuration: its credential must not go to where it may be by then.
func (p *Provider) cluster(n int, byPlace bool) string {
	c := &p.anywhere
	if byPlace {
		c = &p.there
	}
	if n == 1 {
		return c.first
	}
	return c.retry
}

// leastPart is how long a part of a credential is at least, in bytes, so that it is not a word which is written by chance.
const leastPart = 16

// secretsOf returns a credential, and of one that is made of several its parts, such as the id and the secret of an access key.
func secretsOf(credential string) []secret.Value {
	if len(credential) < 4 {
		return nil
	}
	secrets := []secret.Value{secret.New(credential)}
	for _, part := range strings.FieldsFunc(credential, func(r rune) bool { return strings.ContainsRune(":{},\" \n", r) }) {
		if len(part) >= leastPart && part != credential {
			secrets = append(secrets, secret.New(part))
		}
	}
	return secrets
}

// scrub takes the provider's credential out of an error for the client: some vendors repeat what they were sent. Nothing is
// modified.
func (p *Provider) scrub(e *openai.Error) *openai.Error {
	if p == nil {
		return e
	}
	message := e.Message
	for _, s := range p.secrets {
		message = strings.ReplaceAll(message, s.Reveal(), secret.Redacted)
	}
	if message == e.Message {
		return e
	}
	clean := *e
	clean.Message = message
	return &clean
}

// mayUse reports whether a key may use a model, by the name the client uses. Refused models look like missing ones.
func (c *Config) mayUse(k *access.Client, name string) bool {
	m := c.Models[name]
	if m == nil {
		m = c.indexed().tuned[name]
	}
	tuned := m.GetFineTuned()
	restricted := tuned != nil || m.GetOrganization() != "" || m.GetProject() != ""
	if restricted && (k.Organization != m.GetOrganization() || m.GetProject() != "" && k.Project != m.GetProject()) {
		return false
	}
	return bound(k, name) || tuned != nil && (bound(k, m.GetName()) || bound(k, tuned.GetBaseModel()))
}

// bound reports whether the models that a key is bound to include a name.
func bound(k *access.Client, name string) bool {
	return len(k.Models) == 0 || slices.ContainsFunc(k.Models, func(pattern string) bool { return configv1.Matches(pattern, name) })
}

// unlisted returns the target of a model named <provider>/<model> that has no Model of its own, also while its
// provider waits for a credential.
func (c *Config) unlisted(name string) (*Provider, string) {
	head, model, ok := strings.Cut(name, "/")
	if !ok || model == "" || climbs(model) { // of some vendors it is a part of the path
		return nil, ""
	}
	p := c.Providers[head]
	if p == nil || p.Config.GetDisabled() && !p.waiting {
		return nil, ""
	}
	if !p.Config.AllowsUnlisted() && !slices.Contains(p.Config.GetModels(), model) {
		return nil, ""
	}
	return p, model
}
