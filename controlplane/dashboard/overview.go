package dashboard

import (
	"errors"
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/admin"
)

// An overviewData is what the first page shows.
type overviewData struct {
	Span span
	// Attention is what a person must look at. Unknown says why it is not known.
	Attention []adminapi.Attention
	Unknown   string
	// Models and Providers have the same totals, each by its own groups.
	Models, Providers adminapi.Series
	Before            *adminapi.Series // of the previous period; nil: it is not compared with
	// Away says why there are no figures.
	Away                           string
	Requests, Tokens, Cost, Delays chart
	// Whether there is something to begin with, where nothing has happened yet.
	HasProviders, HasKeys bool
}

func (v *visit) home(w http.ResponseWriter, r *http.Request) error {
	data := overviewData{Span: v.span(r)}
	if v.principal.May(admin.StatusRead) {
		found, err := v.api.Attention(r.Context())
		data.Attention = found.Items
		if data.Unknown, err = away(err); err != nil {
			return err
		}
	}
	var err error
	if data.Away, err = away(data.read(v, r)); err != nil {
		return err
	}
	data.draw()
	if data.Models.Requests == 0 && v.principal.May(admin.ConfigRead) && v.principal.May(admin.KeysRead) {
		for kind, there := range map[string]*bool{"providers": &data.HasProviders, "keys": &data.HasKeys} {
			page, err := v.api.ListPage(r.Context(), kindNamed(kind), adminapi.ListOptions{Limit: 1})
			if err != nil {
				return err
			}
			*there = len(page.Items) > 0
		}
	}
	return v.render(w, "overview", "Overview", data)
}

// mostNamed is how many models and providers the overview names.
const mostNamed = 10

func (d *overviewData) read(v *visit, r *http.Request) error {
	for by, into := range map[string]*adminapi.Series{"model": &d.Models, "provider": &d.Providers} {
		q := d.Span.series(by)
		if q.Groups = mostNamed; by == "model" {
			q.Detailed = maxStack // for the charts
		}
		s, err := v.api.Series(r.Context(), q)
		if err != nil {
			return err
		}
		*into = s
	}
	if !d.Span.Compare {
		return nil
	}
	before, err := v.before(r, d.Span, nil)
	d.Before = before
	return err
}

func (d *overviewData) draw() {
	d.Requests, d.Delays = timeChart("Requests", "", d.Span), timeChart("Latency", "ms", d.Span)
	d.Requests.Stacked = true
	for _, b := range d.Models.Buckets {
		d.Requests.put(0, "Errors", b.Start, float64(b.Errors))
		d.Requests.put(1, "Without error", b.Start, float64(b.Requests-b.Errors))
		d.Delays.put(0, "Median", b.Start, float64(b.LatencyP50))
		d.Delays.put(1, "95th percentile", b.Start, float64(b.LatencyP95))
		if b.LatencyP95 == 0 { // nothing has ended, which took no time, but not none
			d.Delays.gap(b.Start)
		}
	}
	d.Tokens = stack("Tokens by model", "tokens", d.Models, d.Span)
	d.Cost = stack("Cost by model", "cost", d.Models, d.Span)
	d.Requests.compare(d.Before, "requests")
	d.Tokens.compare(d.Before, "tokens")
	d.Cost.compare(d.Before, "cost")
}

// away turns the error of something that is not there just now into words: the rest of the page is shown all the same.
func away(err error) (string, error) {
	if e, ok := errors.AsType[*openai.Error](err); ok && (e.Status >= 500 || e.Status == http.StatusNotFound) {
		return e.Message, nil
	}
	return "", err
}
