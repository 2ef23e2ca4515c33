// Package overview is the first page: what needs attention, and the figures of a time.
//
// People may see it without a scope, so each part of it asks for its own.
package overview

import (
	"embed"
	"net/http"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/figures"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// A section is the page, and what it knows of the first steps.
type section struct {
	steps Steps
	done  atomic.Bool // whether they need not be shown any more
}

// Section returns the page.
func Section(steps Steps) page.Section {
	s := &section{steps: steps}
	return page.Section{
		Place: 10,
		Lines: []page.Line{
			{Group: page.GroupOverview, Path: "/", Name: "Overview", Scope: authz.UsageRead, Tenants: true, Ranged: true},
		},
		Routes: []page.Route{
			page.Get("/{$}", "", s.show),
			page.Post("/first-steps", authz.ConfigWrite, s.dismiss),
		},
		Templates: templates,
		Notices:   map[string]string{"steps_dismissed": "The first steps are not shown any more, to anybody."},
	}
}

// An overviewData is what the first page shows.
type overviewData struct {
	Span figures.Span
	// Incidents are those that are open.
	Incidents []adminapi.Incident
	// Attention are the other items that need a person. Unknown says why they are not known.
	Attention []adminapi.Attention
	Unknown   string
	// Untried are the providers that nobody has asked, and Asked whether any other was.
	Untried []string
	Asked   bool
	// Totals are of everything, by model for the charts.
	Totals            adminapi.Series
	Before            *adminapi.Series // of the previous period; nil: it is not compared with
	Models, Providers figures.Table
	// Away says why there are no figures.
	Away                           string
	Requests, Tokens, Cost, Delays figures.Chart
	// Steps are the first steps, unless they are done or dismissed.
	Steps []step
	// Whether there are some. What is missing is named if nothing has happened yet.
	HasProviders, HasKeys bool
}

func (s *section) show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data := overviewData{Span: figures.SpanOf(v, r)}
	var err error
	if r.Header.Get("HX-Target") == "" { // what the page refreshes does not have them
		if data.Steps, err = s.firstSteps(v, r); err != nil {
			return err
		}
	}
	if v.Principal.May(authz.StatusRead) {
		if err := data.attend(v, r); err != nil {
			return err
		}
		if len(data.Attention)+len(data.Incidents) == 0 {
			if err := data.tried(v, r); err != nil {
				return err
			}
		}
	}
	if data.Away, err = page.Unavailable(data.read(v, r)); err != nil {
		return err
	}
	data.draw()
	if data.Totals.Requests == 0 && v.Principal.May(authz.ConfigRead) && v.Principal.May(authz.KeysRead) {
		data.HasProviders = !v.Principal.Tenant.IsAll() // people of a tenant may not see them
		if !data.HasProviders {
			data.HasProviders, err = some(v, r, configv1.KindOf((*configv1.Provider)(nil)))
		}
		if err == nil {
			data.HasKeys, err = some(v, r, configv1.KeyKind())
		}
		if err != nil {
			return err
		}
	}
	return v.Render(w, "overview", "Overview", data)
}

// tried finds out which providers were never asked: that nothing is wrong with them is not known.
func (d *overviewData) tried(v *page.Visit, r *http.Request) error {
	health, err := v.API.Health(r.Context())
	for _, h := range health.Providers {
		if h.State == adminapi.ProviderUntried {
			d.Untried = append(d.Untried, h.Provider)
		}
		d.Asked = d.Asked || h.State != adminapi.ProviderUntried && !h.Deleted
	}
	_, err = page.Unavailable(err) // the figures say so
	return err
}

// attend reads what is wrong and what waits. What has an incident is not told twice.
func (d *overviewData) attend(v *page.Visit, r *http.Request) error {
	open, err := v.API.Incidents(r.Context())
	if _, err = page.Unavailable(err); err != nil { // that the ledger is unavailable needs attention itself
		return err
	}
	d.Incidents = open.Items
	found, err := v.API.Attention(r.Context())
	for _, a := range found.Items {
		if !slices.ContainsFunc(open.Items, func(i adminapi.Incident) bool { return i.Subject == a.Subject }) {
			d.Attention = append(d.Attention, a)
		}
	}
	d.Unknown, err = page.Unavailable(err)
	return err
}

// some reports whether there is an object of a kind.
func some(v *page.Visit, r *http.Request, kind configv1.Kind) (bool, error) {
	found, err := v.API.ListPage(r.Context(), kind, adminapi.ListOptions{Limit: 1})
	return len(found.Items) > 0, err
}

// read reads the figures side by side: each is a query of its own.
func (d *overviewData) read(v *page.Visit, r *http.Request) error {
	var all errgroup.Group
	all.Go(func() (err error) {
		q := d.Span.Series("model")
		q.Groups, q.Detailed = figures.MaxStack, figures.MaxStack
		d.Totals, err = v.API.Series(r.Context(), q.Values())
		return err
	})
	for by, into := range map[string]*figures.Table{"model": &d.Models, "provider": &d.Providers} {
		all.Go(func() (err error) {
			*into, err = figures.TableOf(v, r, d.Span, by, nil)
			return err
		})
	}
	if d.Span.Compare {
		all.Go(func() (err error) {
			d.Before, err = figures.Before(v, r, d.Span, nil)
			return err
		})
	}
	return all.Wait()
}

func (d *overviewData) draw() {
	d.Requests, d.Delays = figures.TimeChart("Requests", "", d.Span), figures.TimeChart("Latency", "ms", d.Span)
	d.Requests.Stacked = true
	for _, b := range d.Totals.Buckets {
		d.Requests.Put(0, "Errors", b.Start, float64(b.Errors))
		d.Requests.Put(1, "Without error", b.Start, float64(b.Requests-b.Errors))
		d.Delays.Put(0, "Median", b.Start, float64(b.LatencyP50))
		d.Delays.Put(1, "95th percentile", b.Start, float64(b.LatencyP95))
		if b.LatencyP95 == 0 { // nothing has ended, which took no time, but not none
			d.Delays.Gap(b.Start)
		}
	}
	d.Tokens = figures.Stack("Tokens by model", "tokens", d.Totals, d.Span)
	d.Cost = figures.Stack("Cost by model", "cost", d.Totals, d.Span)
	d.Requests.Compare(d.Before, "requests")
	d.Tokens.Compare(d.Before, "tokens")
	d.Cost.Compare(d.Before, "cost")
}
