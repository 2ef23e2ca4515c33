// Package models is the pages of models and of the targets that serve them.
//
// The name of a model may hold slashes, so routes take the rest of the path.
package models

import (
	"cmp"
	"context"
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/figures"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
	"github.com/modelgate/modelgate/internal/catalog"
)

//go:embed *.html
var templates embed.FS

// Section returns the pages.
func Section() page.Section {
	return page.Section{
		Place: 60,
		Lines: []page.Line{
			{Group: page.GroupModels, Path: "/models", Name: "Models", Scope: authz.ConfigRead},
		},
		Routes: []page.Route{
			page.Get("/models", authz.ConfigRead, list),
			page.Post("/models", authz.ConfigWrite, create),
			page.Get("/new/model", authz.ConfigWrite, form),
			page.Get("/models/{name...}", authz.ConfigRead, show),
			page.Post("/models/{name...}", authz.ConfigWrite, change),
		},
		Templates: templates,
	}
}

func kind() configv1.Kind { return configv1.KindOf((*configv1.Model)(nil)) }

// A modelsData is what the list of models shows.
type modelsData struct {
	page.List
	Asked string // the name of a model that somebody looks up
	Steps []step
}

func list(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	found, err := v.List(r, kind(), "organization", "project")
	if err != nil {
		return err
	}
	data := modelsData{List: found, Asked: strings.TrimSpace(r.URL.Query().Get("where"))}
	if data.Asked != "" {
		if data.Steps, err = where(r.Context(), v, data.Asked); err != nil {
			return err
		}
	}
	return v.Render(w, "models", "Models", data)
}

// A step is a target of a model, in the order of the attempts.
type step struct {
	Turn     int // from 1: those with the same share requests by weight
	Provider string
	Vendor   string
	Model    string
	Percent  int // of the requests of its turn
	Price    *configv1.Price
	Problem  string // why it is passed over
}

// where returns the targets that requests for a name go to.
func where(ctx context.Context, v *page.Visit, name string) ([]step, error) {
	item, err := v.API.Get(ctx, kind(), name)
	if m, ok := item.Object.(*configv1.Model); ok && err == nil {
		return steps(ctx, v, m.GetTargets())
	}
	provider, model, ok := strings.Cut(name, "/")
	if !ok {
		return nil, nil
	}
	item, err = v.API.Get(ctx, configv1.KindOf((*configv1.Provider)(nil)), provider)
	p, found := item.Object.(*configv1.Provider)
	if err != nil || !found || !p.AllowsUnlisted() && !slices.Contains(p.GetModels(), model) {
		return nil, nil //nolint:nilerr // there is no such provider, and so no way
	}
	return steps(ctx, v, []*configv1.Target{{Provider: provider, Model: model}})
}

// steps sorts targets by the order of the attempts.
func steps(ctx context.Context, v *page.Visit, targets []*configv1.Target) ([]step, error) {
	items, err := v.API.List(ctx, configv1.KindOf((*configv1.Provider)(nil)))
	if err != nil {
		return nil, err
	}
	providers := map[string]*configv1.Provider{}
	for _, item := range items {
		if p, ok := item.Object.(*configv1.Provider); ok {
			providers[item.Name] = p
		}
	}
	facts := known(ctx, v)
	sorted := slices.Clone(targets)
	slices.SortStableFunc(sorted, func(a, b *configv1.Target) int {
		return cmp.Compare(a.GetPriority(), b.GetPriority())
	})
	weights := map[uint32]uint32{}
	for _, t := range sorted {
		weights[t.GetPriority()] += t.Share()
	}
	var list []step
	turn := 0
	for i, t := range sorted {
		if i == 0 || t.GetPriority() != sorted[i-1].GetPriority() {
			turn++
		}
		p := providers[t.GetProvider()]
		s := step{
			Turn: turn, Provider: t.GetProvider(), Vendor: p.GetVendor(), Model: t.GetModel(),
			Percent: int(100 * uint64(t.Share()) / uint64(max(weights[t.GetPriority()], 1))),
			Price:   catalog.PriceAt(facts.Facts(p.GetVendor(), t.GetModel()), time.Now()),
		}
		switch {
		case p == nil:
			s.Problem = "the provider does not exist"
		case p.GetDisabled():
			s.Problem = "the provider is disabled"
		}
		list = append(list, s)
	}
	return list, nil
}

// known returns what is known of models: the built-in catalog, and the operator's before it.
func known(ctx context.Context, v *page.Visit) *catalog.Catalog {
	item, _ := v.API.Get(ctx, configv1.KindOf((*configv1.Catalog)(nil)), "default") // there need not be one
	own, _ := item.Object.(*configv1.Catalog)
	return catalog.New(own)
}

// A modelData is what the pages of one model show.
type modelData struct {
	Model     *configv1.Model
	New       bool
	Status    adminapi.Status
	Steps     []step
	Providers []adminapi.Item
	Rows      []*configv1.Target
	Activity  *figures.Activity
}

func render(v *page.Visit, w http.ResponseWriter, r *http.Request, status int, data modelData, problem string) error {
	var err error
	if data.Providers, err = v.API.List(r.Context(), configv1.KindOf((*configv1.Provider)(nil))); err != nil {
		return err
	}
	if data.Steps, err = steps(r.Context(), v, data.Model.GetTargets()); err != nil {
		return err
	}
	data.Rows = append(slices.Clone(data.Model.GetTargets()), &configv1.Target{})
	title := "Model " + data.Model.GetName()
	if data.New {
		title = "New model"
	}
	return v.RenderStatus(w, status, "model", title, data, problem)
}

// form may have a name and a target filled in, as the address says.
func form(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	m := &configv1.Model{Name: q.Get("name")}
	if q.Get("model") != "" {
		m.Targets = []*configv1.Target{{Provider: q.Get("provider"), Model: q.Get("model")}}
	}
	return render(v, w, r, http.StatusOK, modelData{Model: m, New: true}, "")
}

func create(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data := modelData{Model: &configv1.Model{Name: strings.TrimSpace(r.PostForm.Get("name"))}, New: true}
	return save(v, w, r, data)
}

// save stores what is in the form.
func save(v *page.Visit, w http.ResponseWriter, r *http.Request, data modelData) error {
	read := readModel(r.PostForm, data.Model)
	return v.Save(w, r, data.Model, data.New, read, page.Path("models", data.Model.GetName()),
		func(status int, problem string) error { return render(v, w, r, status, data, problem) })
}

// readModel puts what a form says into a model. A row without a model of the provider's is none.
func readModel(f url.Values, m *configv1.Model) error {
	var errs []error
	m.Targets = nil
	for i := range f["target_model"] {
		model := forms.At(f, "target_model", i)
		if model == "" {
			continue
		}
		weight, errWeight := forms.Small(forms.At(f, "target_weight", i), "weight")
		priority, errPriority := forms.Small(forms.At(f, "target_priority", i), "priority")
		errs = append(errs, errWeight, errPriority)
		m.Targets = append(m.Targets, &configv1.Target{Provider: forms.At(f, "target_provider", i), Model: model,
			Weight: weight, Priority: priority})
	}
	errs = append(errs, forms.Read(f, m, "organization", "project", "owned_by"))
	attempts, err := forms.Small(strings.TrimSpace(f.Get("max_attempts")), "max_attempts")
	if attempts != 0 || m.GetRetry() != nil {
		if m.Retry == nil {
			m.Retry = &configv1.Retry{}
		}
		m.Retry.MaxAttempts = attempts
	}
	return cmp.Or(append(errs, err)...)
}

func show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	m, status, err := page.Stored[*configv1.Model](v, r)
	if err != nil {
		return err
	}
	used, err := figures.ActivityOf(v, r, "model", m.GetName(), "key", "Key")
	if err != nil {
		return err
	}
	return render(v, w, r, http.StatusOK, modelData{Model: m, Status: status, Activity: used}, "")
}

func change(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	m, status, err := page.Stored[*configv1.Model](v, r)
	if err != nil {
		return err
	}
	return save(v, w, r, modelData{Model: m, Status: status})
}
