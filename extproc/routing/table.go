package routing

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// A Table is what is configured of models and of the providers that serve them. It is immutable once requests are
// planned by it.
type Table struct {
	Providers map[string]*Provider
	Models    map[string]*configv1.Model
	Listings  map[string]*configv1.Listing // by provider
	Catalog   *catalog.Catalog             // nil: nothing is known of any model

	index *index
}

// mayUse reports whether a key may use a model, by the name the client uses. Refused models look like missing ones.
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
	return Bound(k, name) || tuned != nil && (Bound(k, m.GetName()) || Bound(k, tuned.GetBaseModel()))
}

// Bound reports whether the models that a key is bound to include a name.
func Bound(k *access.Client, name string) bool {
	return len(k.Models) == 0 || slices.ContainsFunc(k.Models,
		func(pattern string) bool { return configv1.Matches(pattern, name) })
}

// unlisted returns the target of a model named <provider>/<model> that has no Model of its own, also while its
// provider waits for a credential.
func (t *Table) unlisted(name string) (*Provider, string) {
	head, model, ok := strings.Cut(name, "/")
	if !ok || model == "" || Climbs(model) { // of some vendors it is a part of the path
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

// Label returns what metrics and spans call a model that a client has named: one of a bounded set of names, and none
// that a client could make up. A fine-tuned model, whose name has words of a client's, is called as the model that was
// tuned.
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

// WaitingRetry is after what time clients are to ask a provider again that waits for its credential.
const WaitingRetry = 2 * time.Second

// noProvider is the error for a model of which no target can be asked.
func (t *Table) noProvider(model string) *openai.Error {
	head, _, _ := strings.Cut(model, "/")
	targets := []*configv1.Target{{Provider: head}}
	if m := t.Models[model]; m != nil {
		targets = m.GetTargets()
	}
	for _, target := range targets {
		if p := t.Providers[target.GetProvider()]; p.IsWaiting() {
			return Waits()
		}
	}
	return &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer, Code: openai.CodeNoProvider,
		Message: fmt.Sprintf("No provider of the model `%s` is enabled.", model)}
}

// IsWaiting reports whether the provider waits for its credential.
func (p *Provider) IsWaiting() bool { return p != nil && p.waiting }

// Waits is the error for a provider that waits for its credential.
func Waits() *openai.Error {
	return &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer, Code: openai.CodeNoProvider,
		RetryAfter: WaitingRetry,
		Message:    "The gateway has no valid credential for the provider at the moment, and is getting one. Please retry."}
}
