package routing

import (
	"slices"
	"strings"

	"github.com/modelgate/modelgate/extproc/access"
)

// A host is a DNS name of providers. An application that knows no other address calls it, and reaches the gateway if
// the name leads there.
type host struct {
	bases     []string // paths of the providers' endpoints
	providers []string // by name
}

// addHost adds that of a provider at the standard port: at another one it may be a neighbour of the gateway, which has
// the same name.
func (x *index) addHost(name string, p *Provider) {
	if !p.endpoint.TLS || p.endpoint.Port != 443 {
		return
	}
	h := x.hosts[p.endpoint.Host]
	if !slices.Contains(h.bases, p.endpoint.Path) {
		h.bases = append(h.bases, p.endpoint.Path)
	}
	h.providers = append(h.providers, name)
	x.hosts[p.endpoint.Host] = h
}

// OwnPaths returns the paths that a request can mean whose client takes the gateway for a provider's host: that below
// /v1 in place of the path of an endpoint. Vendors have OpenAI's API below "openai", too.
func (t *Table) OwnPaths(host, path string) (own []string) {
	for _, base := range t.indexed().hosts[host].bases {
		rest, ok := strings.CutPrefix(path, base+"/")
		if !ok {
			continue
		}
		for _, prefix := range [...]string{"", "openai/", "openai/v1/"} {
			if rest, ok := strings.CutPrefix(rest, prefix); ok {
				own = append(own, "/v1/"+rest)
			}
		}
	}
	return own
}

// AtHost returns the providers whose endpoints have a host.
func (t *Table) AtHost(name string) []string { return t.indexed().hosts[name].providers }

// ResolveAt is Resolve for a request to the host of providers. What the name alone does not decide, that does: a
// vendor's clients name its models without the provider.
func (t *Table) ResolveAt(k *access.Client, name string, providers []string) (string, error) {
	resolved, err := t.Resolve(k, name)
	if err == nil {
		return resolved, nil
	}
	for _, p := range providers {
		if full := p + "/" + name; t.isProviderModel(full) && t.mayUse(k, full) {
			return full, nil
		}
	}
	return resolved, err
}
