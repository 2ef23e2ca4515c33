package overview

import (
	"context"
	"net/http"
	"slices"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// Steps remembers for everybody that somebody has dismissed the first steps. It must be safe for concurrent use.
type Steps interface {
	Dismissed(ctx context.Context) (bool, error)
	Dismiss(ctx context.Context, person string) error
}

// A step is one of the first steps with a new gateway.
type step struct {
	Name, Text string
	Done       bool
	// Path leads to where it is done, and Link says so. They are empty for people who may not do it.
	Path, Link string
}

// stepFacts are what is known of a gateway.
type stepFacts struct {
	// Provider is the name of a provider with an account of a vendor.
	Provider string
	// Tested is set if a test of a provider was successful, or a request has reached one.
	Tested bool
	// Requested is set if a request has reached a provider, also the built-in echo.
	Requested          bool
	Key, Budget, Alert bool
}

// stepsOf returns the first steps, and whether all are done.
func stepsOf(f stepFacts, may func(authz.Scope) bool) (steps []step, done bool) {
	test := step{Name: "Test it", Text: "The gateway asks the vendor with the credential.", Done: f.Tested}
	if f.Provider != "" {
		test.Path, test.Link = page.Path("providers", f.Provider), "Open the provider"
	}
	all := []struct {
		step
		scope authz.Scope
	}{
		{step{"Add a provider", "An account with a model vendor.", f.Provider != "", "/new/provider", "Add a provider"},
			authz.ConfigWrite},
		{test, authz.ConfigWrite},
		{step{"Create a key", "Clients call the gateway with it.", f.Key, "/new/key", "Create a key"}, authz.KeysWrite},
		{step{"Send a request", "From the playground, or from any OpenAI client.", f.Requested, "/playground",
			"Open the playground"}, authz.Playground},
		{step{"Set a budget", "A key or an organization cannot spend more.", f.Budget, "/keys", "Choose a key"},
			authz.ConfigWrite},
		{step{"Set an alert", "Somebody learns when a provider fails or a budget is spent.", f.Alert, "/alerts", "Alerts"},
			authz.ConfigWrite},
	}
	done = true
	for _, s := range all {
		if s.Done || !may(s.scope) {
			s.Path, s.Link = "", ""
		}
		steps, done = append(steps, s.step), done && s.Done
	}
	return steps, done
}

// firstSteps returns the steps if they are to be shown: until all are done, or somebody has dismissed them.
func (s *section) firstSteps(v *page.Visit, r *http.Request) ([]step, error) {
	for _, scope := range []authz.Scope{authz.ConfigRead, authz.KeysRead, authz.UsageRead, authz.StatusRead} {
		if !v.Principal.May(scope) || !v.Principal.Tenant.IsAll() {
			return nil, nil
		}
	}
	if s.done.Load() {
		return nil, nil
	}
	if dismissed, err := s.steps.Dismissed(r.Context()); err != nil || dismissed {
		s.done.Store(dismissed)
		return nil, err
	}
	f, err := readFacts(v, r)
	if away, err := page.Unavailable(err); err != nil || away != "" { // then it is not known which are done
		return nil, err
	}
	steps, done := stepsOf(f, v.Principal.May)
	s.done.Store(done)
	if done {
		return nil, nil
	}
	return steps, nil
}

func readFacts(v *page.Visit, r *http.Request) (f stepFacts, err error) {
	providers, err := v.API.List(r.Context(), configv1.KindOf((*configv1.Provider)(nil)))
	if err != nil {
		return f, err
	}
	var accounts []string
	for _, item := range providers {
		if p, ok := item.Object.(*configv1.Provider); ok && p.GetVendor() != "echo" {
			accounts = append(accounts, p.GetName())
		}
	}
	if len(accounts) > 0 {
		f.Provider = accounts[0]
	}
	if f.Key, err = some(v, r, configv1.KeyKind()); err != nil {
		return f, err
	}
	if f.Alert, err = some(v, r, configv1.KindOf((*configv1.AlertRule)(nil))); err != nil {
		return f, err
	}
	health, err := v.API.Health(r.Context())
	if err != nil {
		return f, err
	}
	for _, h := range health.Providers {
		if h.State != adminapi.ProviderUntried {
			f.Requested = true
			f.Tested = f.Tested || slices.Contains(accounts, h.Provider)
		}
	}
	if !f.Tested { // a gateway with requests and a long audit log need not search it
		if f.Tested, err = tested(v, r); err != nil {
			return f, err
		}
	}
	budgets, err := v.API.Budgets(r.Context())
	f.Budget = len(budgets.Items) > 0
	return f, err
}

// tested reports whether the audit log has a successful test of a provider, as far as the person may know.
func tested(v *page.Visit, r *http.Request) (bool, error) {
	if !v.Principal.May(authz.AuditRead) {
		return false, nil
	}
	found, err := v.API.Audit(r.Context(), adminapi.ListOptions{Limit: 1,
		Filters: map[string]string{"kind": "Provider", "action": adminapi.ActionTest}})
	return len(found.Items) > 0, err
}

// dismiss keeps that nobody wants to see the first steps any more.
func (s *section) dismiss(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	if !v.Principal.Tenant.IsAll() {
		return page.ErrNotAllowed
	}
	return v.Done(w, r, s.steps.Dismiss(r.Context(), v.Principal.Name), "/", "steps_dismissed")
}
