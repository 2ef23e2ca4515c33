package routing

import (
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"

	"github.com/modelgate/modelgate/extproc/access"
)

const (
	// maxSimilar is how many models the error for an unknown one names.
	maxSimilar = 5
	// leastSimilar is how long a name is at least, in bytes, so that others are like it.
	leastSimilar = 3
)

// Resolve returns the name of a model by which it is planned: the client's own, or "<provider>/<model>" where it names
// a model that exactly one provider lists, of those that the key may use. An error is an *openai.Error, and names
// candidates. Models that the key may not use are as if they were not there.
func (t *Table) Resolve(k *access.Client, name string) (string, error) {
	if (t.Models[name] != nil || t.known(name)) && t.mayUse(k, name) {
		return name, nil
	}
	listing := t.mine(k, t.indexed().bare[name])
	switch len(listing) {
	case 1:
		return listing[0], nil
	case 0:
		return "", withCandidates(openai.ModelNotFound(name), " Models with a similar name: ", t.similar(k, name))
	}
	return "", withCandidates(openai.ModelNotFound(name), " Several providers list it, please name one of: ", listing)
}

// ResolveKey returns the name of a model by which it is planned for a key, and an error where that may use none of the
// name.
func (t *Table) ResolveKey(key *configv1.Key, name string) (string, error) {
	return t.Resolve(&access.Client{Organization: key.GetOrganization(), Project: key.GetProject(),
		Models: key.GetModels()}, name)
}

// known reports whether a name is that of a provider's model, "<provider>/<model>".
func (t *Table) known(name string) bool {
	p, _ := t.unlisted(name)
	return p != nil
}

// mine returns those names of models that a key may use.
func (t *Table) mine(k *access.Client, names []string) []string {
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

// similar returns a few of the listed models that a key may use, in whose names a name occurs, or which occur in it.
func (t *Table) similar(k *access.Client, name string) []string {
	if len(name) < leastSimilar {
		return nil
	}
	name = strings.ToLower(name)
	var found []string
	for _, m := range t.indexed().listed {
		own := strings.ToLower(m.name[strings.LastIndexByte(m.name, '/')+1:])
		like := strings.Contains(own, name) || len(own) >= leastSimilar && strings.Contains(name, own)
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
