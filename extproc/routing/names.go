package routing

import (
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"

	"github.com/modelgate/modelgate/extproc/access"
)

const (
	// maxSimilar bounds the models that the error for an unknown model suggests.
	maxSimilar = 5
	// minSimilar is the minimum length of a name, in bytes, for suggestions.
	minSimilar = 3
)

// Resolve returns the name of a model in the configuration. It is the client's name, or "<provider>/<model>" if
// exactly one provider lists the model among those that the key may use. An error is an *openai.Error and suggests
// models. Models that the key may not use are treated as missing.
func (t *Table) Resolve(k *access.Client, name string) (string, error) {
	if (t.Models[name] != nil || t.isProviderModel(name)) && t.mayUse(k, name) {
		return name, nil
	}
	listing := t.allowed(k, t.indexed().bare[name])
	switch len(listing) {
	case 1:
		return listing[0], nil
	case 0:
		return "", withCandidates(openai.ModelNotFound(name), " Models with a similar name: ", t.similar(k, name))
	}
	return "", withCandidates(openai.ModelNotFound(name), " Several providers list it, please name one of: ", listing)
}

// MayReach reports whether a key may use a provider's own model that a request names beside its model. An empty name
// stands for any model of the provider.
func (t *Table) MayReach(k *access.Client, provider, model string) bool {
	if model == "" {
		return Allows(k, provider+"/*")
	}
	return t.mayUse(k, provider+"/"+model)
}

// MayRefer reports whether requests of a key may refer to what a provider keeps under its account. All tenants share
// the account, and nobody knows which of them has made what is there.
func (t *Table) MayRefer(k *access.Client, p *configv1.Provider) bool {
	return p.GetSharedObjects() || k.Organization == "" && t.MayReach(k, p.GetName(), "")
}

// ResolveKey is Resolve for a key. It returns an error if the key may not use a model of that name.
func (t *Table) ResolveKey(key *configv1.Key, name string) (string, error) {
	return t.Resolve(&access.Client{Organization: key.GetOrganization(), Project: key.GetProject(),
		Models: key.GetModels()}, name)
}

// isProviderModel reports whether a name has the form "<provider>/<model>" of a provider's model.
func (t *Table) isProviderModel(name string) bool {
	p, _ := t.unlisted(name)
	return p != nil
}

// allowed returns those names of models that a key may use.
func (t *Table) allowed(k *access.Client, names []string) []string {
	if !slices.ContainsFunc(names, func(name string) bool { return !t.mayUse(k, name) }) {
		return names
	}
	var mine []string
	for _, name := range names {
		if t.mayUse(k, name) {
			mine = append(mine, name)
		}
	}
	return mine
}

// similar returns some listed models that a key may use and whose names contain a name, or are contained in it.
func (t *Table) similar(k *access.Client, name string) []string {
	if len(name) < minSimilar {
		return nil
	}
	name = strings.ToLower(name)
	var found []string
	for _, m := range t.indexed().listed {
		own := strings.ToLower(m.name[strings.LastIndexByte(m.name, '/')+1:])
		like := strings.Contains(own, name) || len(own) >= minSimilar && strings.Contains(name, own)
		if like && t.mayUse(k, m.name) {
			if found = append(found, m.name); len(found) == maxSimilar {
				break
			}
		}
	}
	return found
}

// withCandidates adds the names of models to an error.
func withCandidates(e *openai.Error, what string, names []string) *openai.Error {
	if len(names) > 0 {
		e.Message += what + "`" + strings.Join(names[:min(len(names), maxSimilar)], "`, `") + "`."
	}
	return e
}
