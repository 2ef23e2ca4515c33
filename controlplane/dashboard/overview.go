package dashboard

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/admin"
)

// An overviewData is what the first page shows.
type overviewData struct {
	Summary adminapi.Summary
	// Away says why there are no figures.
	Away                           string
	Requests, Tokens, Cost, Delays chart
	// What there is to do where nothing has happened yet.
	Providers, Keys bool
	Trouble         []adminapi.DataPlaneClient
}

func (v *visit) home(w http.ResponseWriter, r *http.Request) error {
	now := v.config.Now()
	summary, err := v.api.Summary(r.Context(), adminapi.ListOptions{Filters: map[string]string{
		"start": strconv.FormatInt(now.Add(-24*time.Hour).Truncate(time.Hour).Unix(), 10),
		"end":   strconv.FormatInt(now.Unix(), 10),
	}})
	data := overviewData{Summary: summary}
	if data.Away, err = away(err); err != nil {
		return err
	}
	data.draw()
	if summary.Requests == 0 && v.principal.May(admin.ConfigRead) && v.principal.May(admin.KeysRead) {
		for kind, there := range map[string]*bool{"providers": &data.Providers, "keys": &data.Keys} {
			page, err := v.api.ListPage(r.Context(), kindNamed(kind), adminapi.ListOptions{Limit: 1})
			if err != nil {
				return err
			}
			*there = len(page.Items) > 0
		}
	}
	if v.principal.May(admin.StatusRead) {
		plane, err := v.api.DataPlane(r.Context())
		if err == nil {
			for _, c := range plane.Clients {
				if c.Health != "ok" {
					data.Trouble = append(data.Trouble, c)
				}
			}
		}
	}
	return v.render(w, "overview", "Overview", data)
}

func (d *overviewData) draw() {
	d.Requests, d.Tokens, d.Cost, d.Delays = chart{Name: "Requests", Time: true}, chart{Name: "Tokens", Time: true},
		chart{Name: "Cost", Time: true, Unit: "$", Bars: true}, chart{Name: "Latency", Time: true, Unit: "ms"}
	for _, h := range d.Summary.Hours {
		for _, c := range []*chart{&d.Requests, &d.Tokens, &d.Cost, &d.Delays} {
			c.X = append(c.X, h.Start.Unix())
		}
		cost, _ := strconv.ParseFloat(h.CostUSD, 64) // a decimal
		d.Requests.add(0, "Requests", float64(h.Requests))
		d.Requests.add(1, "Errors", float64(h.Errors))
		d.Tokens.add(0, "Input", float64(h.InputTokens))
		d.Tokens.add(1, "Output", float64(h.OutputTokens))
		d.Cost.add(0, "Cost", cost)
		d.Delays.add(0, "Median", float64(h.LatencyP50))
		d.Delays.add(1, "95th percentile", float64(h.LatencyP95))
		if h.Requests == 0 { // which took no time, but not none
			for _, s := range d.Delays.Series {
				s.Values[len(s.Values)-1] = nil
			}
		}
	}
}

// away turns the error of something that is not there just now into words: the rest of the page is shown all the same.
func away(err error) (string, error) {
	if e, ok := errors.AsType[*openai.Error](err); ok && (e.Status >= 500 || e.Status == http.StatusNotFound) {
		return e.Message, nil
	}
	return "", err
}
