package dashboard_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/dashboard"
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
		"/keys/key_none": 404, "/objects/Nothing": 404, "/objects/Provider/none": 404, "/models/none": 404, "/nothing": 404,
		"/keys/a/b/c":     404,
		"/keys?after=%00": 400,
	} {
		p := w.get(path)
		require.Equal(t, status, p.status, path)
		require.Contains(t, p.body, "Back to the overview", path)
	}
}

// hold sends a form but for its last byte, and returns what sends that and reads the answer.
func (w *browser) hold(path string, form url.Values) (finish func() int) {
	w.t.Helper()
	form.Set("csrf", w.csrf)
	body := form.Encode()
	rest, more := io.Pipe()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.bench.url+path,
		io.MultiReader(strings.NewReader(body[:len(body)-1]), rest))
	require.NoError(w.t, err)
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", w.bench.url)
	status := make(chan int, 1)
	go func() {
		resp, err := w.client.Do(r)
		if err != nil {
			status <- 0
			return
		}
		status <- resp.StatusCode
		_ = resp.Body.Close()
	}()
	return func() int {
		_, err := io.WriteString(more, body[len(body)-1:])
		require.NoError(w.t, err)
		return <-status
	}
}

func TestFormThatIsHeldBackDoesNotOutliveItsSession(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	eve := b.person(t, owner, "evelyn", "OWNER")
	eve.get("/account")
	began := b.arrivals.Load()
	account := eve.hold("/accounts", url.Values{"name": {"mole"}, "role": {"OWNER"}, "password": {goodPassword}})
	password := eve.hold("/account", url.Values{"current": {goodPassword}, "password": {"another good password"}})
	require.Eventually(t, func() bool { return b.arrivals.Load() == began+2 }, 5*time.Second, time.Millisecond)
	owner.get("/delete/Account/evelyn")
	require.Equal(t, 303, owner.post("/delete/Account/evelyn").status)
	account()
	password()
	page := text(owner.get("/accounts").body)
	require.NotContains(t, page, "mole")
	require.NotContains(t, page, "evelyn")
}

func TestAnAccountThatIsDeletedWhileItsPasswordIsChangedStaysDeleted(t *testing.T) {
	b := newBench(t)
	w := b.person(t, b.owner(t), "evelyn", "OWNER")
	w.get("/account")
	b.ledger.onPut = func() {
		_, err := b.etcd.Delete(t.Context(), "/modelgate/v1/accounts/evelyn")
		assert.NoError(t, err)
	}
	require.Equal(t, 422, w.post("/account", "current", goodPassword, "password", "another good password").status)
	require.Equal(t, 401, b.browser(t).signIn("evelyn", "another good password").status)
}

func TestLinkMakesNoFormula(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	for _, path := range []string{"/usage.csv?organization=acme&by=%3Dcmd()", "/usage.csv?by=%3Dcmd()"} {
		p := w.get(path)
		require.Equal(t, 200, p.status, path)
		require.NotContains(t, p.body, "=cmd()", path)
	}
}

func TestGuessesOfTheRootTokenAreSlowed(t *testing.T) {
	b := newBench(t)
	w := b.browser(t)
	ask := func(token string) shown {
		return w.postForm("/sign-in/link", url.Values{}, "Authorization", "Bearer "+token)
	}
	for range 10 {
		require.Equal(t, 201, ask(rootToken).status, "what is right counts for nothing")
	}
	for range 10 {
		require.Equal(t, 401, ask("guess").status)
	}
	p := ask(rootToken)
	require.Equal(t, 429, p.status, "the right one too: a guess must not be told from it")
	require.NotEmpty(t, p.header.Get("Retry-After"))
}

// A slowWriter notes the deadlines of a connection.
type slowWriter struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (w *slowWriter) SetReadDeadline(at time.Time) error {
	w.read = at
	return nil
}

func (w *slowWriter) SetWriteDeadline(at time.Time) error {
	w.write = at
	return nil
}

func TestSlowBrowsersAreCutOffButNotStreams(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	owner.get("/account")
	for _, path := range []string{"/sign-in", "/static/app.css", "/nothing"} {
		w := &slowWriter{ResponseRecorder: httptest.NewRecorder()}
		b.dashboard.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		require.WithinRange(t, w.read, time.Now(), time.Now().Add(time.Minute), path)
		require.WithinRange(t, w.write, time.Now(), time.Now().Add(2*time.Minute), path)
	}
	gateway := httptest.NewServer(http.NotFoundHandler())
	defer gateway.Close()
	b.gateway = func() (string, http.RoundTripper) { return gateway.URL, http.DefaultTransport }
	r := httptest.NewRequest(http.MethodPost, "/playground/ask/chat", strings.NewReader("{}"))
	u, err := url.Parse(b.url)
	require.NoError(t, err)
	for _, c := range owner.client.Jar.Cookies(u) {
		r.AddCookie(c)
	}
	r.Header.Set("X-Form-Token", owner.csrf)
	w := &slowWriter{ResponseRecorder: httptest.NewRecorder()}
	b.dashboard.ServeHTTP(w, r)
	require.Equal(t, 404, w.Code, w.Body.String())
	require.NotContains(t, w.Body.String(), "html", "the gateway's answer")
	require.Zero(t, w.read)
	require.Zero(t, w.write)
}

func TestLongNamesTakeNoMemory(t *testing.T) {
	th := dashboard.NewThrottle(3, time.Hour, time.Now)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 64 {
		require.Zero(t, dashboard.Take(th, strings.Repeat(strconv.Itoa(i), 1<<20)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(8<<20))
	runtime.KeepAlive(th)
}
