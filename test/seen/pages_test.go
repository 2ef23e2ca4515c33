package seen

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/usage"
)

// A visitor is signed in at the dashboard.
type visitor struct {
	*scene
	browser *http.Client
}

func (s *scene) visitor(t *testing.T) *visitor {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	v := &visitor{s, &http.Client{Transport: s.Client.Transport, Jar: jar, Timeout: time.Minute}}
	var token string
	form := v.page(t, "/sign-in")
	form.each(func(n *html.Node) {
		if attr(n, "name") == "csrf" {
			token = attr(n, "value")
		}
	})
	require.NotEmpty(t, token)
	r, err := v.browser.PostForm(s.Admin+"/sign-in",
		url.Values{"name": {"watcher"}, "password": {password}, "csrf": {token}})
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Equal(t, http.StatusOK, r.StatusCode)
	return v
}

// A page is one of the dashboard, or a part of it.
type page struct{ *html.Node }

func (v *visitor) page(t *testing.T, path string) page {
	t.Helper()
	r, err := v.browser.Get(v.Admin + path)
	require.NoError(t, err)
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.StatusCode, "%s: %s", path, body)
	root, err := html.Parse(strings.NewReader(string(body)))
	require.NoError(t, err)
	return page{root}
}

func (p page) each(f func(*html.Node)) {
	for n := range p.Descendants() {
		f(n)
	}
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// text is what a reader sees of a node, with single spaces.
func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// facts are the terms of the page's lists, each with its first description: its title where it has one, which is the
// whole number, and what is below it.
func (p page) facts() map[string]string {
	facts, term := map[string]string{}, ""
	p.each(func(n *html.Node) {
		switch {
		case n.Data == "dt":
			term = text(n)
		case n.Data == "dd" && attr(n, "class") == "sub":
			facts[term+", below"] = text(n)
		case n.Data == "dd":
			facts[term] = text(n)
			if whole := attr(n, "title"); whole != "" {
				facts[term] = whole
			}
		}
	})
	return facts
}

// table returns the rows of the region with a label, each by the text of its head or its first cell, as cells by the
// head of their column.
func (p page) table(t *testing.T, label string) map[string]map[string]string {
	t.Helper()
	rows := map[string]map[string]string{}
	p.each(func(region *html.Node) {
		if attr(region, "role") != "region" || attr(region, "aria-label") != label {
			return
		}
		var heads []string
		page{region}.each(func(n *html.Node) {
			if n.Data != "tr" {
				return
			}
			cells := map[string]string{}
			first, i := "", 0
			for c := range n.ChildNodes() {
				switch {
				case c.Data != "th" && c.Data != "td":
					continue
				case n.Parent.Data == "thead":
					heads = append(heads, text(c))
				case c.Data == "th", i == 0: // before the name there may be a box to choose the row
					first = text(c)
				case i < len(heads):
					cells[heads[i]] = text(c)
				}
				i++
			}
			if n.Parent.Data != "thead" {
				require.NotContains(t, rows, first, label)
				rows[first] = cells
			}
		})
	})
	require.NotEmpty(t, rows, "no table %q", label)
	return rows
}

// named has the names of keys in the place of their ids, as pages show them.
func (s *scene) named(text string) string {
	for i, k := range s.keys {
		text = strings.ReplaceAll(text, k.id, fmt.Sprint("key ", i))
	}
	return text
}

// number writes a number as pages do.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// dollars writes an amount as pages do: to the cent, or of less than a dollar four digits.
func dollars(t *testing.T, usd string) string {
	f, err := strconv.ParseFloat(usd, 64)
	require.NoError(t, err)
	switch {
	case f == 0:
		return "$0.00"
	case f < 0.0001:
		return "<$0.0001"
	case f < 1:
		return "$" + strconv.FormatFloat(f, 'f', 4, 64)
	}
	return "$" + strconv.FormatFloat(f, 'f', 2, 64) // of less than a thousand
}

// amount returns the amount of a cell, whose column has one precision, as dollars writes it.
func amount(t *testing.T, cell string) string {
	if strings.HasPrefix(cell, "<") {
		return cell
	}
	return dollars(t, strings.ReplaceAll(strings.TrimPrefix(cell, "$"), ",", ""))
}

// rounded is a percentage as pages write it: what is not all is less than 100, and what is not nothing more than 0.
func rounded(part, whole int64) int64 {
	percent := (200*part + whole) / (2 * max(whole, 1))
	if part > 0 && part < whole {
		percent = max(1, min(percent, 99))
	}
	return percent
}

// comparePages compares what people see.
func (s *scene) comparePages(t *testing.T) {
	v := s.visitor(t)
	t.Run("overview", func(t *testing.T) { v.compareOverview(t) })
	t.Run("usage", func(t *testing.T) { v.compareUsagePage(t) })
	t.Run("requests", func(t *testing.T) { v.compareRequestsPage(t) })
	t.Run("request", func(t *testing.T) { v.compareRequestPages(t) })
	t.Run("providers", func(t *testing.T) { v.compareProviders(t) })
	t.Run("owners", func(t *testing.T) { v.compareOwners(t) })
	t.Run("jobs", func(t *testing.T) { v.compareJobPages(t) })
}

// compareTiles compares the tiles of a page.
func compareTiles(t *testing.T, p page, want adminapi.Totals, what string) {
	t.Helper()
	tiles := p.facts()
	require.Equal(t, number(want.Requests), tiles["Requests"], what)
	require.Equal(t, number(want.Errors), tiles["Errors"], what)
	require.Equal(t, strconv.FormatInt(rounded(want.Errors, want.Requests), 10)+" % of requests",
		strings.Split(tiles["Errors, below"], ";")[0], what)
	require.Equal(t, dollars(t, want.CostUSD), tiles["Cost"], what)
}

func (v *visitor) compareOverview(t *testing.T) {
	p, want := v.page(t, "/"), v.sum(everything)
	compareTiles(t, p, want, "overview")
	tiles := p.facts()
	require.Equal(t, number(want.InputTokens), tiles["Input tokens"])
	require.Equal(t, number(want.OutputTokens), tiles["Output tokens"])
	for label, field := range map[string]string{"Models": "model", "Providers": "provider"} {
		rows := p.table(t, label)
		groups := v.groups(field)
		require.Len(t, rows, min(len(groups), 10), label)
		for name, row := range rows {
			g := groups[name]
			require.Equal(t, [3]string{number(g.Requests), number(g.Errors), dollars(t, g.CostUSD)},
				[3]string{row["Requests"], row["Errors"], amount(t, row["Cost"])}, "%s %s", label, name)
		}
	}
	attention, err := v.admin.Attention(t.Context())
	require.NoError(t, err)
	shown := text(p.Node)
	for _, a := range attention.Items {
		_, name, _ := strings.Cut(a.Object, " ") // after its kind
		require.Contains(t, shown, v.named(name))
	}
}

// compareUsagePage compares the table of usage by each group with what was sent, and its CSV.
func (v *visitor) compareUsagePage(t *testing.T) {
	for field := range fields() {
		rows := v.page(t, "/usage?by="+field).table(t, "Usage")
		want := v.groups(field)
		want["Total"] = v.sum(everything)
		for name, row := range rows {
			if name == "Previous period" {
				continue
			}
			group := name
			if words := strings.Fields(name); len(words) > 1 && name != usage.ResponseCache { // its name for people and its own
				group = words[len(words)-1]
			}
			if name == "none" {
				group = ""
			}
			g, ok := want[group]
			require.True(t, ok, "%s %q", field, name)
			row["Cost"] = amount(t, row["Cost"])
			require.Equal(t, usageCells(t, g), row, "%s %s", field, name)
			delete(want, group)
		}
		require.Empty(t, want, "%s: not on the page", field)
	}
}

func usageCells(t *testing.T, g adminapi.Totals) map[string]string {
	return map[string]string{"Requests": number(g.Requests), "Errors": number(g.Errors),
		"Input tokens": number(g.InputTokens), "Cached input tokens": number(g.CachedTokens),
		"Output tokens": number(g.OutputTokens), "Cost": dollars(t, g.CostUSD)}
}

// compareRequestsPage compares the counts of classes on the page of requests, with and without filters.
func (v *visitor) compareRequestsPage(t *testing.T) {
	for query, of := range map[string]func(*ask) bool{"": everything,
		"?model=chain":                   func(a *ask) bool { return a.model == "chain" },
		"?provider=faulty":               func(a *ask) bool { return a.last().provider == "faulty" },
		"?refused_by=model/":             func(a *ask) bool { return strings.HasPrefix(a.refuse, "model/") },
		"?key_name=" + v.keys[0].id:      func(a *ask) bool { return a.client.id == v.keys[0].id },
		"?organization=south&status=404": func(a *ask) bool { return a.client.organization == "south" && a.status == 404 },
	} {
		want := map[string]int{}
		for _, a := range v.asks {
			if of(a) {
				want[a.class()]++
				want["all"]++
			}
		}
		counts := map[string]int{}
		v.page(t, "/requests"+query).each(func(group *html.Node) {
			if attr(group, "class") != "classes" {
				return
			}
			for c := range group.ChildNodes() {
				if words := strings.Fields(text(c)); c.Data == "a" && len(words) > 1 {
					n, err := strconv.Atoi(strings.ReplaceAll(words[len(words)-1], ",", ""))
					require.NoError(t, err)
					if n > 0 {
						counts[strings.TrimSuffix(strings.ToLower(words[0]), "s")] = n
					}
				}
			}
		})
		require.NotEmpty(t, counts, query)
		if _, ok := counts["all"]; !ok {
			delete(want, "all")
		}
		require.Equal(t, want, counts, query)
	}
}

// compareRequestPages compares the page of one request of each kind.
func (v *visitor) compareRequestPages(t *testing.T) {
	shown := map[string]bool{}
	for _, a := range v.asks {
		if shown[a.kind] || a.exchange == "" {
			continue
		}
		shown[a.kind] = true
		p := v.page(t, "/requests/"+url.PathEscape(a.exchange))
		facts := p.facts()
		e, err := v.admin.Request(t.Context(), a.exchange)
		require.NoError(t, err)
		require.Contains(t, text(p.Node), e.Why, a.kind)
		require.Equal(t, e.ErrorCode, facts["Code"], a.kind)
		if e.Detail != nil {
			require.Equal(t, e.Detail.Message, facts["Message"], a.kind)
		}
		require.Equal(t, v.named(a.refuse), facts["Refused by"], a.kind)
		require.Equal(t, a.id, facts["x-request-id"], a.kind)
		require.Equal(t, a.model, facts["Model"], a.kind)
		require.Contains(t, text(p.Node), strconv.Itoa(a.status)+" "+a.outcome, a.kind)
		if len(a.attempts) == 0 {
			require.Contains(t, text(p.Node), "No attempt was made.", a.kind)
			continue
		}
		rows := p.table(t, "Attempts")
		require.Len(t, rows, len(a.attempts), a.kind)
		for i, try := range a.attempts {
			row := rows[strconv.Itoa(i+1)]
			require.Equal(t, [3]string{try.provider, try.model, try.kind},
				[3]string{row["Provider"], row["Provider's model"], row["Kind"]}, a.kind)
			require.Equal(t, try.failed, row["Error"] != "", a.kind)
		}
		if a.cost() > 0 {
			require.Equal(t, "$"+nano(a.cost()), p.table(t, "Cost")["Total"]["Cost"], a.kind)
		}
	}
}

// compareProviders compares the list of providers and the page of each.
func (v *visitor) compareProviders(t *testing.T) {
	list := v.page(t, "/providers").table(t, "Providers")
	health, err := v.admin.Health(t.Context())
	require.NoError(t, err)
	groups := v.groups("provider")
	for _, h := range health.Providers {
		g, row := groups[h.Provider], list[h.Provider]
		require.Equal(t, number(g.Requests), row["Requests, 24 h"], h.Provider)
		require.Equal(t, number(g.Errors), strings.Fields(row["Errors"])[0], h.Provider)
		require.Equal(t, h.Word(), row["Health"], h.Provider)
		p := v.page(t, "/providers/"+h.Provider)
		if g.CostUSD == "" {
			g.CostUSD = "0"
		}
		compareTiles(t, p, g, h.Provider)
		facts := p.facts()
		require.True(t, strings.HasPrefix(facts["State"], h.Word()), "%s: %s", h.Provider, facts["State"])
		if w := h.Last15Minutes; w.Attempts > 0 {
			require.Contains(t, facts["Last 15 minutes"],
				number(w.Attempts)+" attempts, "+number(w.Failed)+" failed")
		}
	}
}

// compareOwners compares the pages of organizations, projects and keys.
func (v *visitor) compareOwners(t *testing.T) {
	for field, path := range map[string]string{"organization": "/organizations/", "project": "/projects/",
		"key": "/keys/"} {
		for name, g := range v.groups(field) {
			if name != "" {
				compareTiles(t, v.page(t, path+name), g, field+" "+name)
			}
		}
	}
	spent := v.sum(func(a *ask) bool { return a.client.id == v.keys[spender].id }).CostUSD
	require.Contains(t, text(v.page(t, "/keys/"+v.keys[spender].id).Node), dollars(t, spent)+" of $1.00")
}
