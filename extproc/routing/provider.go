package routing

import (
	"crypto/sha256"
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
	clusters   clusters // that lead to the place in this configuration
	credential secret.Value
	secrets    []secret.Value // the credential, and the parts of it that are secret by themselves
	quota      quota
	waiting    bool // for its credential; Config is disabled
}

// NewProvider converts a provider as the control plane sends it.
func NewProvider(r *configv1.ResolvedProvider, vendor provider.Provider) (*Provider, error) {
	endpoint, err := vendor.Endpoint(r.GetProvider())
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	p := &Provider{Config: r.GetProvider(), Vendor: vendor.For(r.GetProvider()), endpoint: endpoint,
		credential: secret.New(r.GetCredential()), waiting: r.GetWaiting()}
	p.nameClusters(r.GetPlace())
	p.secrets = SecretsOf(strings.TrimSpace(r.GetCredential()))
	p.quota = quotaOf(p)
	return p, nil
}

// clusters are the names of a provider's clusters, for first attempts, for retries and for sessions.
type clusters struct{ first, retry, session string }

// nameClusters sets the names of the clusters of a place.
func (p *Provider) nameClusters(place string) {
	name := p.Config.GetName()
	p.clusters = clusters{envoy.AtPlace(envoy.FirstCluster(name), place),
		envoy.AtPlace(envoy.RetryCluster(name), place), envoy.AtPlace(envoy.SessionCluster(name), place)}
}

// Cluster returns the cluster of the n-th attempt. It leads to the place in this configuration, because the credential
// must not go to another place.
func (p *Provider) Cluster(n int) string {
	if n == 1 {
		return p.clusters.first
	}
	return p.clusters.retry
}

// minPart is the minimum length in bytes of a secret part of a credential, so that common words are not secrets.
const minPart = 16

// SecretsOf returns a credential and, if it is composed, its parts, such as the id and the secret of an access key.
func SecretsOf(credential string) []secret.Value {
	if len(credential) < 4 {
		return nil
	}
	secrets := []secret.Value{secret.New(credential)}
	for _, part := range strings.FieldsFunc(credential,
		func(r rune) bool { return strings.ContainsRune(":{},\" \n", r) }) {
		if len(part) >= minPart && part != credential {
			secrets = append(secrets, secret.New(part))
		}
	}
	return secrets
}

// Scrub removes the provider's credential from an error, because some vendors repeat the request. It returns a copy.
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

// Secrets returns the provider's credential, and the parts of it that are secret by themselves.
func (p *Provider) Secrets() []secret.Value { return p.secrets }

// AtRoot returns the provider without the path of its endpoint.
func (p *Provider) AtRoot() *Provider {
	root := *p
	root.endpoint.Path = ""
	return &root
}

// Join appends a path to that of the provider's endpoint.
func (p *Provider) Join(path string) string { return p.endpoint.Join(path) }

// A quota identifies providers with the same credential at the same place.
type quota [sha256.Size]byte

func quotaOf(p *Provider) quota {
	text := p.Vendor.Name + "\x00" + p.endpoint.Authority() + p.endpoint.Path + "\x00" + p.credential.Reveal()
	if p.credential.Reveal() == "" {
		text = p.Config.GetName()
	}
	return sha256.Sum256([]byte(text))
}
