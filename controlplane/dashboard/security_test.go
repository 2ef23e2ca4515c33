package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormsOfOthersAreRefused(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	w.get("/new/organization")
	good := url.Values{"csrf": {w.csrf}, "name": {"made"}}
	other := b.browser(t)
	other.get("/sign-in")
	for name, tc := range map[string]struct {
		form    url.Values
		headers []string
	}{
		"no token":              {url.Values{"name": {"made"}}, nil},
		"a wrong token":         {url.Values{"csrf": {strings.Repeat("A", 43)}, "name": {"made"}}, nil},
		"somebody else's token": {url.Values{"csrf": {other.csrf}, "name": {"made"}}, nil},
		"another site":          {good, []string{"Sec-Fetch-Site", "cross-site"}},
		"another origin":        {good, []string{"Origin", "https://evil.example"}},
		"no origin":             {good, []string{"Origin", "null"}},
		"another port":          {good, []string{"Origin", "https://127.0.0.1:1"}},
	} {
		p := w.postForm("/organizations", tc.form, tc.headers...)
		require.Equal(t, 403, p.status, name)
		require.Equal(t, 404, w.get("/organizations/made").status, name)
	}
	p := w.postForm("/organizations", url.Values{"csrf": good["csrf"], "name": {"made"}}, "Origin", b.url)
	require.Equal(t, 303, p.status, text(p.body))
	require.Equal(t, 200, w.get("/organizations/made").status)

	// Nor can somebody be signed in or out by another site.
	require.Equal(t, 403, w.postForm("/sign-out", url.Values{}).status)
	require.Equal(t, 403, other.postForm("/sign-in", url.Values{"name": {"ada"}, "password": {goodPassword}}).status)
}

func TestHeadersAndCookies(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	for _, path := range []string{"/", "/sign-in", "/nothing", "/static/app.css", "/keys"} {
		h := w.get(path).header
		policy := h.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'", path)
		require.Contains(t, policy, "frame-ancestors 'none'")
		require.NotContains(t, policy, "unsafe")
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Equal(t, "same-origin", h.Get("Referrer-Policy"))
	}
	require.Equal(t, "no-store", w.get("/keys").header.Get("Cache-Control"))
	fresh := b.browser(t)
	fresh.get("/sign-in")
	p := fresh.post("/sign-in", "name", "ada", "password", goodPassword)
	var seen bool
	for _, c := range (&http.Response{Header: p.header}).Cookies() {
		if c.Name != "__Host-modelgate" {
			continue
		}
		seen = true
		require.True(t, c.Secure && c.HttpOnly, c)
		require.Equal(t, "/", c.Path)
		require.Empty(t, c.Domain)
		require.Equal(t, http.SameSiteLaxMode, c.SameSite)
	}
	require.True(t, seen)
}

func TestPagesHoldNothingInline(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	for _, path := range []string{"/", "/keys", "/usage", "/playground", "/new/key", "/account"} {
		body := w.get(path).body
		require.NotContains(t, body, " style=", path)
		require.NotContains(t, body, "<style", path)
		require.NotRegexp(t, `\son[a-z]+=`, body, path)
		require.NotRegexp(t, `<script(>| [^>]*[^>]*>[^<])`, strings.ReplaceAll(body, " defer", ""), path)
	}
}

func TestStaticFilesAreKeptByTheirVersion(t *testing.T) {
	b := newBench(t)
	w := b.browser(t)
	page := w.get("/sign-in").body
	start := strings.Index(page, "/static/app.css?v=")
	require.Positive(t, start)
	address := page[start : start+strings.Index(page[start:], `"`)]
	require.Contains(t, w.get(address).header.Get("Cache-Control"), "immutable")
	require.NotContains(t, w.get("/static/app.css?v=old").header.Get("Cache-Control"), "immutable")
	require.Equal(t, 404, w.get("/static/").status)
	require.Equal(t, 404, w.get("/static/%2e%2e/dashboard.go").status)
}

func TestErrorsTellNoInternals(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	b.plane.panics = true
	p := w.get("/data-plane")
	require.NotContains(t, p.body, "boom")
	require.NotContains(t, p.body, ".go:")
	b.plane.panics = false
	for path, status := range map[string]int{
		"/keys/key_none": 404, "/objects/Nothing": 404, "/objects/Provider/none": 404, "/models/none": 404, "/nothing": 404, "/keys/a/b/c": 404,
		"/keys?after=%00": 400,
	} {
		p := w.get(path)
		require.Equal(t, status, p.status, path)
		require.Contains(t, p.body, "Back to the overview", path)
	}
}
