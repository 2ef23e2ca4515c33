// Package requests is the request log, the page of one request, and its kept bodies.
//
// Kept bodies are shown to a form only: whoever only follows a link has not looked.
package requests

import (
	"embed"
	"hash/fnv"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/figures"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// A section is the pages, and the addresses that they name.
type section struct{ baseURL, traceURL string }

// Section returns the pages. BaseURL is the address of the admin API. TraceURL is the address of a trace, with
// {trace_id} in it; empty: none.
func Section(baseURL, traceURL string) page.Section {
	s := section{baseURL, traceURL}
	return page.Section{
		Place: 40,
		Lines: []page.Line{
			{Group: page.GroupRequests, Path: "/requests", Name: "Requests", Scope: authz.UsageRead, Tenants: true,
				Ranged: true},
		},
		Routes: []page.Route{
			page.Get("/requests", authz.UsageRead, list),
			page.Get("/requests.csv", authz.UsageRead, export),
			page.Get("/requests.jsonl", authz.UsageRead, export),
			page.Get("/requests/{id}", authz.UsageRead, s.show),
			page.Get("/requests/{id}/bodies", authz.BodiesRead, askBodies),
			page.Post("/requests/{id}/bodies", authz.BodiesRead, showBodies),
		},
		Templates: templates,
		Functions: template.FuncMap{"outcomes": func() []string {
			return []string{"served", "error", "finished", "rejected", "failed", "truncated", "cancelled", "gateway",
				"interrupted"}
		}},
	}
}

// requestFilters are the fields of the page's form.
func requestFilters() []string {
	return []string{"request_id", "key_name", "key", "user", "model", "provider", "organization", "project", "operation",
		"outcome", "status", "min_cost_usd", "min_duration_ms", "refused_by", "rule", "batch",
		"key_hint"}
}

// A requestsData is what the request log shows.
type requestsData struct {
	page.Part[adminapi.Exchange]
	Span    figures.Span
	Chart   figures.Chart
	Classes []requestClass
	// Counted says what the figures.Chart leaves out.
	Counted adminapi.Outcomes
	// CSV and Lines are addresses of exports. Toggle is the address of the page with or without new requests.
	CSV, Lines, Toggle string
	Tail               bool
	// Poll is the address that reloads the rows. It says which are shown.
	Poll string
	// Later is the address of counts that take longer than the rows. Count is the address of a page that waits for them.
	Later, Count string
	// More is set if fields are filled in that are usually hidden.
	More bool
}

// A requestClass is a class of outcomes, with how many there are and the address that shows only it.
type requestClass struct {
	Name, Path string
	Count      int64
	Chosen     bool
}

func list(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	d := requestsData{Span: figures.SpanOf(v, r)}
	d.Query, d.Filters = r.URL.Query(), append(requestFilters(), "range", "from")
	d.Tail = d.Query.Get("live") != "" && d.Query.Get("after") == ""
	o := d.options()
	if r.Header.Get("HX-Target") == "outcomes" {
		if err := d.count(r, v, o); err != nil {
			return err
		}
		return v.Render(w, "requests", "Requests", d)
	}
	part, err := v.API.Requests(r.Context(), o)
	if problem, ok := page.Refused(err); ok {
		d.Span.Problem, err = problem, nil
	}
	if d.Away, err = page.Unavailable(err); err != nil {
		return err
	}
	d.Items = part.Items
	d.Next, d.First = page.Pages(r, part.Next)
	shown := shownIn(part.Items)
	if r.Header.Get("HX-Target") == "rows" {
		if r.URL.Query().Get("shown") == shown && d.Away == "" {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
	} else if d.takesLong(o) && d.Query.Get("count") == "" {
		d.Later, d.Count = d.with("", ""), d.with("count", "true")
	} else if d.Away == "" {
		if err := d.count(r, v, o); err != nil {
			return err
		}
	}
	d.addresses(shown)
	return v.Render(w, "requests", "Requests", d)
}

// options returns the list options of the page's address.
func (d *requestsData) options() adminapi.ListOptions {
	o := adminapi.ListOptions{After: d.Query.Get("after"), Limit: page.Size, Filters: map[string]string{
		"start": strconv.FormatInt(d.Span.From.Unix(), 10), "end": strconv.FormatInt(d.Span.To.Unix(), 10)}}
	for _, name := range requestFilters() {
		o.Filters[name] = strings.TrimSpace(d.Query.Get(name))
	}
	for _, name := range []string{"status", "min_cost_usd", "min_duration_ms", "refused_by", "rule", "organization",
		"project", "operation", "batch", "key_hint"} {
		d.More = d.More || o.Filters[name] != ""
	}
	return o
}

// takesLong reports whether each request of a long time has to be looked at to count them: no sum knows these filters.
func (d *requestsData) takesLong(o adminapi.ListOptions) bool {
	return d.Away == "" && d.Span.To.Sub(d.Span.From) > 2*24*time.Hour &&
		(o.Filters["min_duration_ms"] != "" || o.Filters["min_cost_usd"] != "" || o.Filters["operation"] != "" ||
			o.Filters["rule"] != "")
}

// count asks for the outcomes, whichever is chosen, and draws them.
func (d *requestsData) count(r *http.Request, v *page.Visit, o adminapi.ListOptions) error {
	chosen := o.Filters["outcome"]
	o.After, o.Limit = "", 0
	o.Filters["width"] = strconv.Itoa(int(d.Span.Width.Seconds()))
	delete(o.Filters, "outcome")
	counted, err := v.API.Outcomes(r.Context(), o)
	if problem, ok := page.Refused(err); ok {
		d.Span.Problem, err = problem, nil
	}
	if d.Away, err = page.Unavailable(err); err != nil {
		return err
	}
	d.Counted = counted
	d.Chart = figures.TimeChart("Requests by outcome", "", d.Span)
	d.Chart.Stacked, d.Chart.Picks = true, true
	names := [...][2]string{{"Served", adminapi.OutcomeServed}, {"Errors", adminapi.OutcomeError},
		{"Rejected", adminapi.OutcomeRejected}, {"Cancelled", adminapi.OutcomeCancelled}}
	for i, name := range names {
		class := requestClass{Name: name[0], Chosen: chosen == name[1]}
		for _, b := range counted.Buckets {
			n := [...]int64{b.Served, b.Errors, b.Rejected, b.Cancelled}[i]
			class.Count += n
			if chosen == "" || class.Chosen {
				d.Chart.Put(i, name[0], b.Start, float64(n))
			}
		}
		if chosen != "" && !class.Chosen || len(counted.Buckets) == 0 {
			d.Chart.Put(i, name[0], d.Span.From, 0)
		}
		class.Path = d.with("outcome", map[bool]string{false: name[1]}[class.Chosen])
		d.Classes = append(d.Classes, class)
	}
	return nil
}

// with returns the address of the page with another value of a parameter, from its beginning.
func (d *requestsData) with(name, value string) string { return d.address("/requests", name, value) }

func (d *requestsData) address(path, name, value string) string {
	q := url.Values{}
	for _, keep := range append(requestFilters(), "range", "from", "to", "live") {
		if set := d.Query.Get(keep); set != "" {
			q.Set(keep, set)
		}
	}
	if q.Del(name); value != "" {
		q.Set(name, value)
	}
	return path + "?" + q.Encode()
}

// addresses sets those that the page leads to.
func (d *requestsData) addresses(shown string) {
	d.CSV, d.Lines = d.address("/requests.csv", "live", ""), d.address("/requests.jsonl", "live", "")
	d.Toggle = d.with("live", map[bool]string{false: "true"}[d.Tail])
	d.Poll = d.with("shown", shown)
}

// shownIn returns a short text that differs where other exchanges are shown.
func shownIn(all []adminapi.Exchange) string {
	h := fnv.New64a()
	for i := range all {
		_, _ = h.Write([]byte(all[i].ID + "\n")) // it never fails
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// export has the admin API write the export, so that it is never whole in memory.
func export(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	d := requestsData{Span: figures.SpanOf(v, r)}
	d.Query = r.URL.Query()
	q := url.Values{"format": {strings.TrimPrefix(r.URL.Path, "/requests.")}}
	for name, value := range d.options().Filters {
		if value != "" {
			q.Set(name, value)
		}
	}
	in := r.Clone(r.Context())
	in.URL.Path, in.URL.RawPath, in.URL.RawQuery = "/admin/v1/requests", "", q.Encode()
	in.RequestURI = in.URL.RequestURI()
	in.Header.Del("Authorization")
	v.Pass(w, in)
	return nil
}

// A requestData is what the page of one request shows.
type requestData struct {
	adminapi.Exchange
	Waterfall []attemptBar
	// Rows is the height of the waterfall.
	Rows int
	Curl string
	// Trace is the address of the trace; empty if it is not known where traces are.
	Trace string
}

// An attemptBar is an attempt, and where it stands in a waterfall of 1000 units.
type attemptBar struct {
	adminapi.Attempt
	Number             int
	Y                  int
	Start, Waits, Wide int64
}

func (s section) show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	e, err := v.API.Request(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	d := requestData{Exchange: e, Curl: `curl -H "Authorization: Bearer $MODELGATE_TOKEN" ` +
		s.baseURL + "/admin/v1/requests/" + url.PathEscape(e.ID)}
	if e.Detail != nil && e.Detail.TraceID != "" && s.traceURL != "" {
		d.Trace = strings.ReplaceAll(s.traceURL, "{trace_id}", e.Detail.TraceID)
	}
	whole := max(e.DurationMS, 1)
	for _, a := range e.AttemptList {
		whole = max(whole, a.StartMS+a.DurationMS)
	}
	for i, a := range e.AttemptList {
		d.Waterfall = append(d.Waterfall, attemptBar{Attempt: a, Number: i + 1, Y: 4 + 22*i, Start: a.StartMS * 1000 / whole,
			Waits: a.FirstByteMS * 1000 / whole, Wide: max(a.DurationMS*1000/whole, 3)})
	}
	d.Rows = 4 + 22*len(d.Waterfall)
	return v.Render(w, "request", "Request "+e.RequestID, d)
}
