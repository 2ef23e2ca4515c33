package dashboard_test

import (
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// program sends JSON as a command line does, which has no cookies.
func (b *bench) program(t *testing.T, path string, body, into any) int {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+path, strings.NewReader(string(text)))
	require.NoError(t, err)
	answer, err := b.server.Client().Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	if into != nil {
		require.NoError(t, json.NewDecoder(answer.Body).Decode(into))
	}
	return answer.StatusCode
}

func (b *bench) redeem(t *testing.T, code, verifier string) (int, adminapi.TerminalSession) {
	t.Helper()
	var got adminapi.TerminalSession
	return b.program(t, adminapi.PathTerminalToken, adminapi.GrantRequest{Code: code, Verifier: verifier}, &got), got
}

// device begins the sign-in of a command line elsewhere.
func (b *bench) device(t *testing.T) (device adminapi.Device, verifier string) {
	t.Helper()
	verifier = oauth2.GenerateVerifier()
	require.Equal(t, 200, b.program(t, adminapi.PathTerminalDevice+"/begin",
		adminapi.DeviceRequest{Challenge: oauth2.S256ChallengeFromVerifier(verifier)}, &device))
	return device, verifier
}

// whose returns whose command line a token is of, as the admin API sees it.
func (b *bench) whose(t *testing.T, token string) string {
	t.Helper()
	account, err := b.terminals(t.Context(), token)
	require.NoError(t, err)
	return account.GetName()
}

func (w *browser) session() string {
	for _, c := range w.client.Jar.Cookies(must(url.Parse(w.bench.url))) {
		if c.Name == "__Host-modelgate" {
			return c.Value
		}
	}
	return ""
}

func TestACommandLineOnThisMachine(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	verifier := oauth2.GenerateVerifier()
	asked := url.Values{"port": {"4444"}, "state": {"s&1"}, "challenge": {oauth2.S256ChallengeFromVerifier(verifier)}}
	page := adminapi.PathTerminal + "?" + asked.Encode()
	require.Contains(t, b.browser(t).get(page).location, "/sign-in?next=%2Fsign-in%2Fterminal%3F")
	require.Contains(t, text(w.get(page).body), "asks to act as  ada")
	require.Equal(t, 403, w.postForm(adminapi.PathTerminal, asked).status, "a page of another site")
	p := w.post(adminapi.PathTerminal, "port", "4444", "state", "s&1", "challenge", asked.Get("challenge"))
	require.Equal(t, 200, p.status)
	back := must(url.Parse(html.UnescapeString(regexp.MustCompile(`url=([^"]*)"`).FindStringSubmatch(p.body)[1])))
	require.Equal(t, "127.0.0.1:4444", back.Host)
	require.Equal(t, "s&1", back.Query().Get("state"))
	code := back.Query().Get("code")

	status, _ := b.redeem(t, code, oauth2.GenerateVerifier())
	require.Equal(t, 401, status, "whoever sees the code has no verifier")
	status, got := b.redeem(t, code, verifier)
	require.Equal(t, 200, status)
	require.Equal(t, "ada owner", got.Account+" "+got.Role)
	require.Equal(t, "ada", b.whose(t, got.Token))
	status, _ = b.redeem(t, code, verifier)
	require.Equal(t, 401, status, "it is good once")

	thief := b.browser(t)
	thief.client.Jar.SetCookies(must(url.Parse(b.url)), []*http.Cookie{{Name: "__Host-modelgate", Path: "/", Secure: true,
		Value: strings.TrimPrefix(got.Token, adminapi.SessionPrefix)}})
	require.Equal(t, 303, thief.get("/keys").status, "it is no cookie")
	require.Empty(t, b.whose(t, adminapi.SessionPrefix+w.session()), "and a cookie is no token")
	require.Equal(t, 200, b.program(t, adminapi.PathTerminalEnd, adminapi.TerminalSession{Token: got.Token}, nil))
	require.Empty(t, b.whose(t, got.Token))
	require.Equal(t, []string{"sign_in", "sign_in_terminal", "sign_out_terminal"}, b.actions())

	for name, q := range map[string]url.Values{"no port": {"port": {""}}, "a low port": {"port": {"80"}},
		"no number": {"port": {"1@evil.example"}}, "no challenge": {"challenge": {"x"}}} {
		given := maps.Clone(asked)
		maps.Copy(given, q)
		require.Equal(t, 400, w.get(adminapi.PathTerminal+"?"+given.Encode()).status, name)
	}
}

func TestACommandLineElsewhere(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	device, verifier := b.device(t)
	require.Regexp(t, `^[B-Z]{4}-[B-Z]{4}$`, device.UserCode)
	status, got := b.redeem(t, device.DeviceCode, verifier)
	require.Equal(t, 200, status)
	require.True(t, got.Pending)
	path := strings.TrimPrefix(device.URL, b.url)
	require.Equal(t, 303, b.browser(t).get(path).status, "somebody who is signed in must allow it")
	w.get(path)
	require.Equal(t, 422, w.post(path, "code", "BCDF-GHJK").status)
	require.Equal(t, 200, w.post(path, "code", " "+strings.ToLower(device.UserCode)).status)
	w.get(path)
	require.Equal(t, 422, w.post(path, "code", device.UserCode).status, "once")
	status, _ = b.redeem(t, device.DeviceCode, "guess")
	require.Equal(t, 401, status)
	_, got = b.redeem(t, device.DeviceCode, verifier)
	require.Equal(t, "ada", got.Account)
	require.Equal(t, "ada", b.whose(t, got.Token))
	require.Equal(t, 400, b.program(t, adminapi.PathTerminalDevice+"/begin",
		adminapi.DeviceRequest{Challenge: "short"}, nil))
}

func TestTheSignInOfACommandLineEndsWithTheAccount(t *testing.T) {
	b := newBench(t)
	i := b.withProvider(t, nil)
	i.Add("grace", "staff")
	w := b.browser(t)
	require.Equal(t, 303, w.signInAt(i, "grace", "/").status)
	b.pass(11 * time.Hour)
	device, verifier := b.device(t)
	w.get(adminapi.PathTerminalDevice)
	require.Equal(t, 200, w.post(adminapi.PathTerminalDevice, "code", device.UserCode).status)
	status, got := b.redeem(t, device.DeviceCode, verifier)
	require.Equal(t, 200, status)
	require.LessOrEqual(t, got.ExpiresAt.Sub(b.clock()), time.Hour, "no longer than the provider let the person in")
	require.Equal(t, "grace@example.com", b.whose(t, got.Token))
	account := b.account(t, "grace@example.com")
	account.Role = configv1.Role_OWNER
	b.put(t, account)
	require.Empty(t, b.whose(t, got.Token))
}
