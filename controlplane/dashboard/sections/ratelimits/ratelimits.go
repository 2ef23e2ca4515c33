// Package ratelimits is the list of rate limits, and the form of a new one.
//
// The form has one chain of descriptors. Others are written as YAML.
package ratelimits

import (
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the pages.
func Section() page.Section {
	return page.Section{
		Place: 200,
		Lines: []page.Line{
			{Group: page.GroupAccess, Path: "/rate-limits", Name: "Rate limits", Scope: authz.ConfigRead},
		},
		Routes: []page.Route{
			page.Get("/rate-limits", authz.ConfigRead, list),
			page.Post("/rate-limits", authz.ConfigWrite, create),
			page.Get("/new/rate-limit", authz.ConfigWrite, form),
		},
		Templates: templates,
		Functions: template.FuncMap{"rules": rules},
	}
}

func kind() configv1.Kind { return configv1.KindOf((*configv1.RateLimit)(nil)) }

func list(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	return v.RenderList(w, r, kind(), "rate-limits", "Rate limits")
}

// A rateLimitForm is the form of a new rate limit with one chain of descriptors. Others are written as YAML.
type rateLimitForm struct {
	Name, Domain, Unit, Amount string
	When                       string
	Shadow                     bool
	Keys                       []string // that there are
	Entries                    []rateLimitEntry
}

type rateLimitEntry struct{ Key, Value string }

func form(v *page.Visit, w http.ResponseWriter, _ *http.Request) error {
	data := rateLimitForm{Domain: configv1.DomainRequests, Unit: "MINUTE", Keys: configv1.RateLimitKeys(),
		Entries: make([]rateLimitEntry, 3)}
	data.Entries[0].Key = "key"
	return v.Render(w, "rate-limit-new", "New rate limit", data)
}

func create(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data := rateLimitFormOf(r.PostForm)
	o, err := data.object()
	return v.Save(w, r, o, true, err, "/rate-limits", func(status int, problem string) error {
		return v.RenderStatus(w, status, "rate-limit-new", "New rate limit", data, problem)
	})
}

func rateLimitFormOf(f url.Values) rateLimitForm {
	form := rateLimitForm{
		Name: strings.TrimSpace(f.Get("name")), Domain: f.Get("domain"), Unit: f.Get("unit"),
		Amount: strings.TrimSpace(f.Get("amount")), When: strings.TrimSpace(f.Get("when")),
		Shadow: f.Get("shadow") != "", Keys: configv1.RateLimitKeys(),
	}
	for i := range f["entry_key"] {
		form.Entries = append(form.Entries, rateLimitEntry{forms.At(f, "entry_key", i), forms.At(f, "entry_value", i)})
	}
	return form
}

// object returns the rate limit whose descriptors are nested in the order of the form.
func (f rateLimitForm) object() (*configv1.RateLimit, error) {
	amount, err := forms.Amount(f.Amount, "amount")
	if err != nil {
		return nil, err
	}
	unit := forms.Unit(f.Unit)
	if configv1.DomainOf(f.Domain).Concurrent {
		unit = configv1.Unit_UNIT_UNSPECIFIED
	}
	o := &configv1.RateLimit{Name: f.Name, Domain: f.Domain, When: f.When}
	list := &o.Descriptors
	var last *configv1.RateLimitDescriptor
	for _, e := range f.Entries {
		if e.Key == "" {
			continue
		}
		last = &configv1.RateLimitDescriptor{Key: e.Key, Value: e.Value}
		*list = append(*list, last)
		list = &last.Descriptors
	}
	if last != nil {
		last.RateLimit, last.ShadowMode = &configv1.RateLimitPolicy{Unit: unit, RequestsPerUnit: amount}, f.Shadow
	}
	return o, nil
}

// rules says in words what a rate limit limits: a line for each of its limits.
func rules(r *configv1.RateLimit) []string {
	var lines []string
	var walk func(above string, list []*configv1.RateLimitDescriptor)
	walk = func(above string, list []*configv1.RateLimitDescriptor) {
		for _, d := range list {
			step := above + "each " + d.GetKey()
			if d.GetValue() != "" {
				step = above + d.GetKey() + " " + d.GetValue()
			}
			if p := d.GetRateLimit(); p != nil {
				line := step + ": " + forms.LimitText(&configv1.Limit{Domain: r.GetDomain(), Unit: p.GetUnit(),
					RequestsPerUnit: p.GetRequestsPerUnit()})
				if d.GetShadowMode() {
					line += " (shadow mode)"
				}
				lines = append(lines, line)
			}
			walk(step+", ", d.GetDescriptors())
		}
	}
	walk("", r.GetDescriptors())
	return lines
}
