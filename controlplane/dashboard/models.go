package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/catalog"
)

func modelKind() configv1.Kind { return configv1.KindOf((*configv1.Model)(nil)) }

// A modelsData is what the list of models shows.
type modelsData struct {
	listData
	Asked string // the name of which somebody asks where it goes
	Steps []step
}

func (v *visit) models(w http.ResponseWriter, r *http.Request) error {
	list, err := v.list(r, modelKind(), "organization", "project")
	if err != nil {
		return err
	}
	data := modelsData{listData: list, Asked: strings.TrimSpace(r.URL.Query().Get("where"))}
	if data.Asked != "" {
		if data.Steps, err = v.where(r.Context(), data.Asked); err != nil {
			return err
		}
	}
	return v.render(w, "models", "Models", data)
}

// A step is a target of a model, in the order in which they are tried.
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
func (v *visit) where(ctx context.Context, name string) ([]step, error) {
	item, err := v.api.Get(ctx, modelKind(), name)
	if m, ok := item.Object.(*configv1.Model); ok && err == nil {
		return v.steps(ctx, m.GetTargets())
	}
	provider, model, ok := strings.Cut(name, "/")
	if !ok {
		return nil, nil
	}
	item, err = v.api.Get(ctx, providerKind(), provider)
	p, found := item.Object.(*configv1.Provider)
	if err != nil || !found || !p.AllowsUnlisted() && !slices.Contains(p.GetModels(), model) {
		return nil, nil //nolint:nilerr // there is no such provider, and so no way
	}
	return v.steps(ctx, []*configv1.Target{{Provider: provider, Model: model}})
}

// steps puts targets into the order in which they are tried.
func (v *visit) steps(ctx context.Context, targets []*configv1.Target) ([]step, error) {
	items, err := v.api.List(ctx, providerKind())
	if err != nil {
		return nil, err
	}
	providers := map[string]*configv1.Provider{}
	for _, item := range items {
		if p, ok := item.Object.(*configv1.Provider); ok {
			providers[item.Name] = p
		}
	}
	facts := v.catalog(ctx)
	sorted := slices.Clone(targets)
	slices.SortStableFunc(sorted, func(a, b *configv1.Target) int {
		return cmp.Compare(a.GetPriority(), b.GetPriority())
	})
	weights := map[uint32]uint32{}
	for _, t := range sorted {
		weights[t.GetPriority()] += t.Share()
	}
	var steps []step
	turn := 0
	for i, t := range sorted {
		if i == 0 || t.GetPriority() != sorted[i-1].GetPriority() {
			turn++
		}
		p := providers[t.GetProvider()]
		s := step{
			Turn: turn, Provider: t.GetProvider(), Vendor: p.GetVendor(), Model: t.GetModel(),
			Percent: int(100 * uint64(t.Share()) / uint64(max(weights[t.GetPriority()], 1))),
			Price:   facts.Facts(p.GetVendor(), t.GetModel()).GetPrice(),
		}
		switch {
		case p == nil:
			s.Problem = "the provider does not exist"
		case p.GetDisabled():
			s.Problem = "the provider is disabled"
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// catalog returns what is known of models: the built-in catalog, and the operator's before it.
func (v *visit) catalog(ctx context.Context) *catalog.Catalog {
	item, _ := v.api.Get(ctx, configv1.KindOf((*configv1.Catalog)(nil)), "default") // there need not be one
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
	Activity  *activity
}

func (v *visit) modelPage(w http.ResponseWriter, r *http.Request, status int, data modelData, problem string) error {
	var err error
	if data.Providers, err = v.api.List(r.Context(), providerKind()); err != nil {
		return err
	}
	if data.Steps, err = v.steps(r.Context(), data.Model.GetTargets()); err != nil {
		return err
	}
	data.Rows = append(slices.Clone(data.Model.GetTargets()), &configv1.Target{})
	title := "Model " + data.Model.GetName()
	if data.New {
		title = "New model"
	}
	return v.renderStatus(w, status, "model", title, data, problem)
}

func (v *visit) newModel(w http.ResponseWriter, r *http.Request) error {
	return v.modelPage(w, r, http.StatusOK, modelData{Model: &configv1.Model{}, New: true}, "")
}

func (v *visit) createModel(w http.ResponseWriter, r *http.Request) error {
	data := modelData{Model: &configv1.Model{Name: strings.TrimSpace(r.PostForm.Get("name"))}, New: true}
	err := readModel(r.PostForm, data.Model)
	if err == nil {
		err = v.create(r, data.Model)
	}
	if message, ok := refused(err); ok {
		return v.modelPage(w, r, http.StatusUnprocessableEntity, data, message)
	}
	return v.done(w, r, err, pathTo("models", data.Model.GetName()), "created")
}

// readModel puts what a form says into a model. A row without a model of the provider's is none.
func readModel(f url.Values, m *configv1.Model) error {
	var errs []error
	m.Targets = nil
	for i := range f["target_model"] {
		model := at(f, "target_model", i)
		if model == "" {
			continue
		}
		weight, errWeight := smallNumber(at(f, "target_weight", i), "weight")
		priority, errPriority := smallNumber(at(f, "target_priority", i), "priority")
		errs = append(errs, errWeight, errPriority)
		m.Targets = append(m.Targets, &configv1.Target{Provider: at(f, "target_provider", i), Model: model, Weight: weight,
			Priority: priority})
	}
	m.Organization, m.Project = strings.TrimSpace(f.Get("organization")), strings.TrimSpace(f.Get("project"))
	attempts, err := smallNumber(strings.TrimSpace(f.Get("max_attempts")), "max_attempts")
	if attempts != 0 || m.GetRetry() != nil {
		if m.Retry == nil {
			m.Retry = &configv1.Retry{}
		}
		m.Retry.MaxAttempts = attempts
	}
	return firstError(append(errs, err)...)
}

func (v *visit) showModel(w http.ResponseWriter, r *http.Request) error {
	m, status, err := stored[*configv1.Model](v, r)
	if err != nil {
		return err
	}
	used, err := v.activityOf(r, "model", m.GetName(), "key", "Key")
	if err != nil {
		return err
	}
	return v.modelPage(w, r, http.StatusOK, modelData{Model: m, Status: status, Activity: used}, "")
}

func (v *visit) changeModel(w http.ResponseWriter, r *http.Request) error {
	m, status, err := stored[*configv1.Model](v, r)
	if err != nil {
		return err
	}
	if err = readModel(r.PostForm, m); err == nil {
		_, err = v.api.Put(r.Context(), m, revisionOf(r))
	}
	if message, ok := refused(err); ok {
		return v.modelPage(w, r, http.StatusUnprocessableEntity, modelData{Model: m, Status: status}, message)
	}
	return v.done(w, r, err, pathTo("models", m.GetName()), "saved")
}
