package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func rateLimitKind() configv1.Kind { return configv1.KindOf((*configv1.RateLimit)(nil)) }

func (v *visit) rateLimits(w http.ResponseWriter, r *http.Request) error {
	data, err := v.list(r, rateLimitKind())
	if err != nil {
		return err
	}
	return v.render(w, "rate-limits", "Rate limits", data)
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

func (v *visit) newRateLimit(w http.ResponseWriter, _ *http.Request) error {
	form := rateLimitForm{Domain: configv1.DomainRequests, Unit: "MINUTE", Keys: configv1.RateLimitKeys(),
		Entries: make([]rateLimitEntry, 3)}
	form.Entries[0].Key = "key"
	return v.render(w, "rate-limit-new", "New rate limit", form)
}

func (v *visit) createRateLimit(w http.ResponseWriter, r *http.Request) error {
	form := rateLimitFormOf(r.PostForm)
	o, err := form.object()
	if err == nil {
		err = v.create(r, o)
	}
	if message, ok := refused(err); ok {
		return v.renderStatus(w, http.StatusUnprocessableEntity, "rate-limit-new", "New rate limit", form, message)
	}
	return v.done(w, r, err, "/rate-limits", "created")
}

func rateLimitFormOf(f url.Values) rateLimitForm {
	form := rateLimitForm{
		Name: strings.TrimSpace(f.Get("name")), Domain: f.Get("domain"), Unit: f.Get("unit"),
		Amount: strings.TrimSpace(f.Get("amount")), When: strings.TrimSpace(f.Get("when")),
		Shadow: f.Get("shadow") != "", Keys: configv1.RateLimitKeys(),
	}
	for i := range f["entry_key"] {
		form.Entries = append(form.Entries, rateLimitEntry{at(f, "entry_key", i), at(f, "entry_value", i)})
	}
	return form
}

// object returns the rate limit whose descriptors are nested in the order of the form.
func (f rateLimitForm) object() (*configv1.RateLimit, error) {
	amount, err := amountOf(f.Amount, "amount")
	if err != nil {
		return nil, err
	}
	unit := unitOf(f.Unit)
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
				line := step + ": " + limitText(&configv1.Limit{Domain: r.GetDomain(), Unit: p.GetUnit(),
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
