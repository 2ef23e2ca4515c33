package routing

import (
	"slices"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// A Table is the configuration of models and of the providers that serve them. It is immutable after its first use.
type Table struct {
	Providers map[string]*Provider
	Models    map[string]*configv1.Model
	Listings  map[string]*configv1.Listing // by provider
	Catalog   *catalog.Catalog             // nil: no facts about models

	index *index
}

// mayUse reports whether a key may use a model, by the client's name. Refused models look like missing ones.
func (t *Table) mayUse(k *access.Client, name string) bool {
	m := t.Models[name]
	if m == nil {
		m = t.indexed().tuned[name]
	}
	tuned := m.GetFineTuned()
	restricted := tuned != nil || m.GetOrganization() != "" || m.GetProject() != ""
	if restricted && (k.Organization != m.GetOrganization() || m.GetProject() != "" && k.Project != m.GetProject()) {
		return false
	}
	return Allows(k, name) || tuned != nil && (Allows(k, m.GetName()) || Allows(k, tuned.GetBaseModel()))
}

// Withholder returns what keeps a key from a model that exists, or "".
func (t *Table) Withholder(k *access.Client, name string) string {
	switch {
	case t.Models[name] == nil && !t.isProviderModel(name) || t.mayUse(k, name):
		return ""
	case !Allows(k, name):
		return "key/" + k.Name + " models"
	}
	return "model/" + name
}

// Allows reports whether the key is allowed to use a model.
func Allows(k *access.Client, name string) bool {
	return len(k.Models) == 0 || slices.ContainsFunc(k.Models,
		func(pattern string) bool { return configv1.Matches(pattern, name) })
}

// unlisted returns the target of a model "<provider>/<model>" without a Model object, also while its provider waits
// for a credential.
func (t *Table) unlisted(name string) (*Provider, string) {
	head, model, ok := strings.Cut(name, "/")
	if !ok || model == "" || HasParentSegment(model) { // for some vendors it is a part of the path
		return nil, ""
	}
	p := t.Providers[head]
	if p == nil || p.Config.GetDisabled() && !p.waiting {
		return nil, ""
	}
	if !p.Config.AllowsUnlisted() && !slices.Contains(p.Config.GetModels(), model) {
		return nil, ""
	}
	return p, model
}

// Label returns the name of a model in metrics and spans. It is from a bounded set, and clients cannot invent one. A
// fine-tuned model has the name of its base model, because its own name has words of a client.
func (t *Table) Label(name string) string {
	x := t.indexed()
	m := t.Models[name]
	if m == nil {
		m = x.tuned[name]
	}
	if tuned := m.GetFineTuned(); tuned != nil {
		if name = tuned.GetBaseModel(); t.Models[name].GetFineTuned() != nil {
			return telemetry.Other
		}
	}
	if i, ok := x.at(name); ok {
		return x.listed[i].name
	}
	return telemetry.Other
}

// WaitingRetry is the retry-after for a provider that waits for its credential.
const WaitingRetry = 2 * time.Second

// noProvider returns the error for a model without an available target.
func (t *Table) noProvider(model string) *openai.Error {
	head, _, _ := strings.Cut(model, "/")
	targets := []*configv1.Target{{Provider: head}}
	if m := t.Models[model]; m != nil {
		targets = m.GetTargets()
	}
	for _, target := range targets {
		if p := t.Providers[target.GetProvider()]; p.IsWaiting() {
			return WaitingError()
		}
	}
	return openai.CodeNoProvider.New("No provider of the model `%s` is enabled.", model)
}

// IsWaiting reports whether the provider waits for its credential.
func (p *Provider) IsWaiting() bool { return p != nil && p.waiting }

// WaitingError returns the error for a provider that waits for its credential.
func WaitingError() *openai.Error {
	return openai.CodeNoProvider.New("The gateway has no valid credential for the provider at the moment, and is getting one. Please retry.").After(WaitingRetry)
}
