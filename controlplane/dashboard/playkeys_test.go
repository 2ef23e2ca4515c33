package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A session uses the playground with a key of its own, which does not outlive it for long.
func TestASessionHasAKeyForThePlayground(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	var keys []string
	gateway := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		keys = append(keys, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	}))
	t.Cleanup(gateway.Close)
	b.gateway = func() (string, http.RoundTripper) { return gateway.URL, http.DefaultTransport }
	chat := func() string {
		w.get("/playground")
		require.Equal(t, 200, w.post("/playground/ask/chat").status)
		return keys[len(keys)-1]
	}
	listed := func() int { return strings.Count(text(w.get("/keys").body), "Playground of ada") }

	first := chat()
	require.Regexp(t, `^sk-mg-`, first)
	require.Equal(t, first, chat(), "one for many messages")
	require.Equal(t, 1, listed())
	b.pass(50 * time.Minute)
	second := chat()
	require.NotEqual(t, first, second, "before the first expires")
	require.Equal(t, 2, listed())
	b.pass(50 * time.Minute)
	chat()
	require.Equal(t, 2, listed(), "the first has expired, and is deleted")
	w.post("/sign-out")
	w = b.browser(t)
	w.get("/sign-in")
	w.signIn("ada", goodPassword)
	require.Equal(t, 1, listed(), "the last is deleted with its session")
}

// An ApprovalRule leaves the playground a key that may do little.
func TestThePlaygroundWorksUnderAnApprovalRule(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	gateway := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(gateway.Close)
	b.gateway = func() (string, http.RoundTripper) { return gateway.URL, http.DefaultTransport }
	rule := func(name, text string) {
		w.get("/new/object/ApprovalRule")
		made := w.post("/objects/ApprovalRule", "action", "save", "text", "kind: ApprovalRule\nname: "+name+"\n"+text)
		require.Equal(t, 303, made.status, text)
		w.get("/playground")
	}
	rule("new", "keys: true\nbudget_usd_month: '100'\n")
	asked := w.post("/playground/ask/chat")
	require.Equal(t, 200, asked.status, asked.body)
	require.Contains(t, text(w.get("/approvals").body), "Nothing waits")
	require.Contains(t, text(w.get("/keys").body), "Playground of ada")

	w.post("/sign-out")
	w = b.browser(t)
	w.get("/sign-in")
	w.signIn("ada", goodPassword)
	rule("small", "budget_usd_month: '0.5'\n")
	refused := w.post("/playground/ask/chat")
	require.Equal(t, 502, refused.status)
	require.Contains(t, refused.body, "Even a key for a trial waits for approval here. ApprovalRule small")
	require.Contains(t, text(w.get("/approvals").body), "Nothing waits")
}
