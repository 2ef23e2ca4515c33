package dashboard_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/dashboard"
)

func TestTheFirstLinkMakesOneOwner(t *testing.T) {
	b := newBench(t)
	link, err := b.dashboard.FirstLink(t.Context())
	require.NoError(t, err)
	require.Contains(t, link, b.url+"/sign-in/first?token=")
	path := strings.TrimPrefix(link, b.url)
	token := path[strings.Index(path, "=")+1:]
	w := b.browser(t)
	require.Equal(t, 410, w.get("/sign-in/first?token=guess").status)
	for range 2 { // that somebody or something has looked at it does not use it up
		require.Equal(t, 200, w.get(path).status)
	}
	p := w.post("/sign-in/first", "token", token, "name", "ada", "password", "short")
	require.Equal(t, 422, p.status)
	require.Contains(t, text(p.body), "12 characters")

	p = w.post("/sign-in/first", "token", token, "name", "ada", "password", goodPassword)
	require.Equal(t, 303, p.status, "what was refused does not use it up either: %s", text(p.body))
	require.Contains(t, text(w.get("/").body), "owner")

	other := b.browser(t)
	other.get("/sign-in")
	require.Equal(t, 410, other.get(path).status)
	require.Equal(t, 410, other.post("/sign-in/first", "token", token, "name", "eve", "password", goodPassword).status)
	again, err := b.dashboard.FirstLink(t.Context())
	require.NoError(t, err)
	require.Empty(t, again, "there is an owner")
	require.Equal(t, []string{"sign_in"}, b.actions())
}

func TestAFirstLinkIsVoidOnceThereIsAnOwner(t *testing.T) {
	b := newBench(t)
	link, err := b.dashboard.FirstLink(t.Context())
	require.NoError(t, err)
	b.owner(t) // by another link
	require.Equal(t, 410, b.browser(t).get(strings.TrimPrefix(link, b.url)).status)
}

func TestOfManyWhoUseALinkAtOnceOneGetsIn(t *testing.T) {
	b := newBench(t)
	link, err := b.dashboard.FirstLink(t.Context())
	require.NoError(t, err)
	path := strings.TrimPrefix(link, b.url)
	var in atomic.Int32
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		w := b.browser(t)
		w.get(path)
		all.Go(func() {
			if w.post("/sign-in/first", "token", path[strings.Index(path, "=")+1:], "name", name, "password",
				goodPassword).status == http.StatusSeeOther {
				in.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, in.Load())
}

func TestTheRootTokenMakesLinks(t *testing.T) {
	b := newBench(t)
	b.owner(t)
	ask := func(token string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/sign-in/link", http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := b.server.Client().Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	require.Equal(t, 401, ask("wrong").StatusCode)
	require.Equal(t, 401, ask("").StatusCode)
	resp := ask(rootToken)
	require.Equal(t, 201, resp.StatusCode)
	var made struct {
		URL string `json:"url"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&made))
	w, u := b.browser(t), strings.TrimPrefix(made.URL, b.url)
	require.Equal(t, 200, w.get(u).status, "it is good although there is an owner: that one may have lost the password")
	token := u[strings.Index(u, "=")+1:]
	p := w.post("/sign-in/first", "token", token, "name", "ada", "password", goodPassword)
	require.Equal(t, 409, p.status, "it takes over no account")
	require.Equal(t, 303, w.post("/sign-in/first", "token", token, "name", "grace", "password", goodPassword).status)
}

func TestSignInTellsNothingOfAccounts(t *testing.T) {
	b := newBench(t)
	b.owner(t)
	w := b.browser(t)
	wrong, unknown := w.signIn("ada", "not the password"), w.signIn("nobody", "not the password")
	require.Equal(t, 401, wrong.status)
	require.Equal(t, 401, unknown.status)
	strip := strings.NewReplacer(`value="ada"`, "", `value="nobody"`, "")
	require.Equal(t, strip.Replace(wrong.body), strip.Replace(unknown.body), "same words")
	require.Equal(t, 303, w.signIn("ada", goodPassword).status)
	require.Equal(t, []string{"sign_in", "sign_in_failed", "sign_in_failed", "sign_in"}, b.actions())
	require.Empty(t, b.entries[2].Name, "what was typed as a name may be a password")
}

func TestSignInTakesAsLongForAnUnknownAccount(t *testing.T) {
	b := newBench(t)
	b.owner(t)
	w, shortest := b.browser(t), map[string]time.Duration{"ada": time.Hour, "nobody": time.Hour}
	ask := func(name string) {
		w.get("/sign-in")
		began := time.Now()
		require.Equal(t, 401, w.post("/sign-in", "name", name, "password", "not the password").status)
		shortest[name] = min(shortest[name], time.Since(began))
		b.pass(time.Minute)
	}
	// Without a hash it would take a fiftieth. Other tests may keep the machine busy: the shortest of many is what it
	// takes.
	alike := func() bool {
		return shortest["nobody"] > shortest["ada"]/4 && shortest["ada"] > shortest["nobody"]/4
	}
	for rounds := 0; rounds < 5 || rounds < 50 && !alike(); rounds++ {
		ask("ada")
		ask("nobody")
	}
	require.True(t, alike(), "%v", shortest)
}

func TestBruteForceIsSlowedAndNobodyIsLockedOutForEver(t *testing.T) {
	b := newBench(t)
	b.owner(t)
	w := b.browser(t)
	for range 10 {
		require.Equal(t, 401, w.signIn("ada", "guess").status)
	}
	p := w.signIn("ada", goodPassword)
	require.Equal(t, 429, p.status, "the right one too: a guess must not be told from it")
	require.NotEmpty(t, p.header.Get("Retry-After"))
	require.Equal(t, 429, w.signIn("nobody", "guess").status, "the same for an unknown account")
	b.pass(7 * time.Second)
	require.Equal(t, 303, w.signIn("ada", goodPassword).status)
}

func TestThrottle(t *testing.T) {
	now := time.Unix(1000, 0)
	th := dashboard.NewThrottle(3, time.Second, func() time.Time { return now })
	for range 3 {
		require.Zero(t, dashboard.Take(th, "a"))
	}
	require.Equal(t, time.Second, dashboard.Take(th, "a"))
	require.Equal(t, time.Second, dashboard.Take(th, "a"),
		"what is refused does not count: nobody is locked out for ever")
	require.Zero(t, dashboard.Take(th, "b"))
	dashboard.GiveBack(th, "a")
	require.Zero(t, dashboard.Take(th, "a"))
	now = now.Add(time.Second)
	require.Zero(t, dashboard.Take(th, "a"))
	require.NotZero(t, dashboard.Take(th, "a"))
	for i := range 50_000 { // it forgets rather than grows
		require.Zero(t, dashboard.Take(th, time.Duration(i).String()))
	}
	require.Equal(t, "2001:db8:1:2::/64", dashboard.Network("2001:db8:1:2:3:4:5:6"))
	require.Equal(t, "192.0.2.1", dashboard.Network("192.0.2.1"))
}

func TestASessionIsNewAtEachSignIn(t *testing.T) {
	b := newBench(t)
	b.owner(t)
	w := b.browser(t)
	u, err := url.Parse(b.url)
	require.NoError(t, err)
	fixed := strings.Repeat("A", 26)
	w.client.Jar.SetCookies(u, []*http.Cookie{{Name: "__Host-modelgate", Value: fixed, Path: "/", Secure: true}})
	require.Equal(t, 303, w.signIn("ada", goodPassword).status)
	session := func() string {
		for _, c := range w.client.Jar.Cookies(u) {
			if c.Name == "__Host-modelgate" {
				return c.Value
			}
		}
		return ""
	}
	first := session()
	require.NotEqual(t, fixed, first)
	thief := b.browser(t)
	thief.client.Jar.SetCookies(u, []*http.Cookie{{Name: "__Host-modelgate", Value: fixed, Path: "/", Secure: true}})
	require.Equal(t, 303, thief.get("/keys").status)

	// Signing in again ends the session before.
	w.client.Jar.SetCookies(u, []*http.Cookie{{Name: "__Host-modelgate", Value: "", Path: "/", MaxAge: -1, Secure: true}})
	w.get("/sign-in")
	w.client.Jar.SetCookies(u, []*http.Cookie{{Name: "__Host-modelgate", Value: first, Path: "/", Secure: true}})
	w.get("/account")
	require.Equal(t, 303, w.post("/sign-in", "name", "ada", "password", goodPassword).status)
	require.NotEqual(t, first, session())
	thief.client.Jar.SetCookies(u, []*http.Cookie{{Name: "__Host-modelgate", Value: first, Path: "/", Secure: true}})
	require.Equal(t, 303, thief.get("/keys").status)
}

func TestSessionsEnd(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	in := func(w *browser) bool { return w.get("/account").status == http.StatusOK }

	w := b.person(t, owner, "idle", "VIEWER")
	b.pass(11 * time.Hour)
	require.True(t, in(w), "its use prolongs it")
	require.True(t, in(owner))
	b.pass(11 * time.Hour)
	require.True(t, in(w))
	require.True(t, in(owner))
	for range 13 { // a page that is left open
		b.pass(time.Hour)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/batches", http.NoBody)
		require.NoError(t, err)
		r.Header.Set("HX-Request", "true")
		w.do(r)
	}
	require.False(t, in(w), "nobody used it")

	w = b.browser(t)
	w.signIn("idle", goodPassword)
	for range 16 {
		require.True(t, in(w))
		b.pass(10 * time.Hour)
	}
	require.True(t, in(w))
	b.pass(9 * time.Hour)
	require.False(t, in(w), "seven days are the most")

	owner = b.browser(t)
	owner.signIn("ada", goodPassword)
	owner.get("/")
	for name, change := range map[string][]string{
		"another password":     {"role", "VIEWER", "password", "another good password"},
		"another role":         {"role", "OPERATOR"},
		"disabled":             {"role", "OPERATOR", "disabled", "on"},
		"and deleted":          nil,
		"its own sign-out":     nil,
		"its own new password": nil,
	} {
		t.Run(name, func(t *testing.T) {
			who := strings.ReplaceAll(name, " ", "-")
			w := b.person(t, owner, who, "VIEWER")
			second := b.browser(t)
			require.Equal(t, 303, second.signIn(who, goodPassword).status)
			owner.get("/accounts/" + who)
			switch {
			case change != nil:
				p := owner.post("/accounts/"+who, change...)
				require.Equal(t, 303, p.status, text(p.body))
			case name == "and deleted":
				require.Equal(t, 303, owner.post("/delete/Account/"+who).status)
			case name == "its own sign-out":
				w.get("/account")
				require.Equal(t, 303, w.post("/sign-out").status)
				require.True(t, in(second), "the other one goes on")
				require.False(t, in(w))
				return
			default:
				w.get("/account")
				require.Equal(t, 422, w.post("/account", "current", "wrong", "password", "another good password").status)
				p := w.post("/account", "current", goodPassword, "password", "another good password")
				require.Equal(t, 303, p.status, text(p.body))
				require.True(t, in(w), "it has a new session")
				require.False(t, in(second))
				return
			}
			require.False(t, in(w))
			require.False(t, in(second))
		})
	}
}

func TestRedirectsStayHere(t *testing.T) {
	b := newBench(t)
	b.owner(t)
	for next, want := range map[string]string{
		"/keys?q=a": "/keys?q=a", "": "/", "https://evil.example/": "/", "//evil.example": "/", `/\evil.example`: "/",
		"/\t/evil.example":    "/",
		"javascript:alert(1)": "/", "keys": "/", "/%0d%0aX: y": "/%0d%0aX: y", "https:evil.example": "/", "/a\r\nb": "/",
	} {
		require.Equal(t, want, dashboard.OwnPath(next), "%q", next)
		w := b.browser(t)
		w.get("/sign-in?next=" + url.QueryEscape(next))
		p := w.post("/sign-in", "name", "ada", "password", goodPassword, "next", next)
		require.Equal(t, 303, p.status)
		u, err := url.Parse(p.location)
		require.NoError(t, err)
		require.Empty(t, u.Host, "%q leads to %s", next, p.location)
		require.True(t, strings.HasPrefix(p.location, "/") && !strings.HasPrefix(p.location, "//"), p.location)
	}
	p := b.browser(t).get("/keys?q=a&organization=b")
	require.Equal(t, "/sign-in?next=%2Fkeys%3Fq%3Da%26organization%3Db", p.location)
}
