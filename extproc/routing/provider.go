package routing

import (
	"fmt"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
)

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
	p := &Provider{Config: r.GetProvider(), Vendor: vendor, endpoint: endpoint, credential: secret.New(r.GetCredential()),
		waiting: r.GetWaiting()}
	p.nameClusters(r.GetPlace())
	p.secrets = SecretsOf(strings.TrimSpace(r.GetCredential()))
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

// Cluster returns the cluster of the n-th attempt, where Envoy has them by place, of those that lead where the
// provider is by this configuration: its credential must not go to where it may be by then.
func (p *Provider) Cluster(n int, byPlace bool) string {
	c := &p.anywhere
	if byPlace {
		c = &p.there
	}
	if n == 1 {
		return c.first
	}
	return c.retry
}

// leastPart is how long a part of a credential is at least, in bytes, so that it is not a word which is written by
// chance.
const leastPart = 16

// SecretsOf returns a credential, and of one that is made of several its parts, such as the id and the secret of an
// access key.
func SecretsOf(credential string) []secret.Value {
	if len(credential) < 4 {
		return nil
	}
	secrets := []secret.Value{secret.New(credential)}
	for _, part := range strings.FieldsFunc(credential,
		func(r rune) bool { return strings.ContainsRune(":{},\" \n", r) }) {
		if len(part) >= leastPart && part != credential {
			secrets = append(secrets, secret.New(part))
		}
	}
	return secrets
}

// Scrub takes the provider's credential out of an error for the client: some vendors repeat what they were sent.
// Nothing is modified.
func (p *Provider) Scrub(e *openai.Error) *openai.Error {
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

// Secrets returns the provider's credential, and the parts of it that mean something by themselves.
func (p *Provider) Secrets() []secret.Value { return p.secrets }

// AtRoot returns the provider with no path in its endpoint.
func (p *Provider) AtRoot() *Provider {
	root := *p
	root.endpoint.Path = ""
	return &root
}

// Join returns the path of the provider's endpoint with another behind it.
func (p *Provider) Join(path string) string { return p.endpoint.Join(path) }
