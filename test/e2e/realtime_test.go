package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/redistest"
	"github.com/modelgate/modelgate/test/harness"
	"github.com/modelgate/modelgate/test/realtimevendor"
)

// realtimeGateway returns a gateway with a provider "rt" of OpenAI's API, one "az" of Azure's, and a model over both.
func realtimeGateway(t *testing.T, args ...string) (*gateway, *realtimevendor.Vendor) {
	v := realtimevendor.New(t)
	g := startRun(t, t.TempDir(), args...)
	harness.Must(t, fmt.Sprintf(`kind: Provider
name: rt
vendor: openai
endpoint: %[1]s/v1
credential: {value: sk-vendors-own-credential}
---
kind: Provider
name: az
vendor: azure
endpoint: %[1]s
api_version: 2025-04-01-preview
credential: {value: azures-own-credential}
---
kind: Model
name: voice
targets:
- {provider: rt, model: busy}
- {provider: az, model: deployed, priority: 1}
---
kind: Catalog
name: default
models:
- vendors: [openai, azure]
  models: ["talk", "large", "endless", "deployed"]
  price: {input: "4", cached_input: "0.4", output: "16", input_audio: "32", output_audio: "64"}
- vendors: [openai]
  models: ["gpt-4o-transcribe"]
  price: {input: "2.5", input_audio: "6", output: "10"}
`, v.URL), "config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error { return g.has("rt/talk", "voice") })
	return g, v
}

// session opens a session as a client with a key.
func (g *gateway) session(t *testing.T, model, key string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	return g.dialSession(t, "?model="+model, http.Header{"Authorization": {"Bearer " + key}})
}

func (g *gateway) dialSession(t *testing.T, query string, h http.Header, protocols ...string) (*websocket.Conn,
	*http.Response, error) {
	t.Helper()
	d := websocket.Dialer{HandshakeTimeout: 10 * time.Second, EnableCompression: true, Subprotocols: protocols,
		TLSClientConfig: &tls.Config{RootCAs: g.Client.Transport.(*http.Transport).TLSClientConfig.RootCAs}}
	c, response, err := d.DialContext(t.Context(), "wss"+strings.TrimPrefix(g.URL, "https")+"/v1/realtime"+query, h)
	if c != nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, response, err
}

// opened is session where it has to succeed. It returns the request's id too, after the first event.
func (g *gateway) opened(t *testing.T, model, key string) (*websocket.Conn, string) {
	t.Helper()
	c, response, err := g.session(t, model, key)
	require.NoError(t, err)
	require.JSONEq(t, realtimevendor.Created, next(t, c))
	return c, response.Header.Get("X-Request-Id")
}

func next(t *testing.T, c *websocket.Conn) string {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, b, err := c.ReadMessage()
	require.NoError(t, err)
	return string(b)
}

// say sends an event of a type.
func say(t *testing.T, c *websocket.Conn, typ string) {
	t.Helper()
	require.NoError(t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"`+typ+`"}`)))
}

// closed reads to the end of a session and returns the close frame.
func closed(t *testing.T, c *websocket.Conn) *websocket.CloseError {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	for {
		if _, _, err := c.ReadMessage(); err != nil {
			var end *websocket.CloseError
			require.ErrorAs(t, err, &end)
			return end
		}
	}
}

// parts waits for the records of a session: the session's own and those of its parts, in order.
func (g *gateway) parts(t *testing.T, requestID string, n int) (session adminapi.Exchange, parts []adminapi.Exchange) {
	t.Helper()
	harness.Eventually(t, "the session in the request log", func() error {
		_, body := g.adminGet(t, "/admin/v1/requests?limit=500")
		var page adminapi.Page[adminapi.Exchange]
		require.NoError(t, json.Unmarshal([]byte(body), &page), body)
		parts, session = nil, adminapi.Exchange{}
		for _, x := range page.Items {
			switch {
			case x.RequestID != requestID:
			case x.Operation == "realtime":
				session = x
			default:
				parts = append([]adminapi.Exchange{x}, parts...)
			}
		}
		if session.ID == "" || len(parts) != n {
			return fmt.Errorf("%d parts of %d, session %q", len(parts), n, session.ID)
		}
		return nil
	})
	return session, parts
}

func TestASessionIsServedAndCharged(t *testing.T) {
	t.Parallel()
	g, v := realtimeGateway(t)
	began := time.Now()
	c, id := g.opened(t, "rt/talk", g.Key)
	require.NotEmpty(t, id)
	h := v.Last().Header
	require.Equal(t, "/v1/realtime?model=talk", v.Last().URL.String())
	require.Equal(t, "Bearer sk-vendors-own-credential", h.Get("Authorization"))
	require.Empty(t, h.Get("Sec-Websocket-Extensions"), "frames are to be read")
	for name := range h {
		require.NotContains(t, h.Get(name), g.Key, name)
	}
	say(t, c, "nonsense")
	require.JSONEq(t, realtimevendor.Error, next(t, c))
	for range 2 {
		say(t, c, "response.create")
		require.JSONEq(t, realtimevendor.Begun, next(t, c))
		require.JSONEq(t, realtimevendor.Text, next(t, c))
		require.Len(t, next(t, c), len(realtimevendor.Audio)-len("AUDIO")+8000)
		require.JSONEq(t, realtimevendor.Done, next(t, c))
	}
	say(t, c, "input_audio_buffer.commit")
	require.JSONEq(t, realtimevendor.Transcribed, next(t, c))
	g.charged(t, id, 3) // while the session goes on
	say(t, c, "quit")
	require.Equal(t, websocket.CloseNormalClosure, closed(t, c).Code)

	session, parts := g.parts(t, id, 3)
	require.Equal(t, "finished", session.Outcome)
	require.Equal(t, 101, session.Status)
	require.Zero(t, session.InputTokens+session.OutputTokens)
	require.Positive(t, session.DurationMS)
	require.LessOrEqual(t, session.DurationMS, time.Since(began).Milliseconds())
	for _, p := range parts[:2] {
		require.Equal(t, "realtime/response", p.Operation)
		require.EqualValues(t, 127, p.InputTokens)
		require.EqualValues(t, 148, p.OutputTokens)
		require.EqualValues(t, 64, p.CachedTokens)
		// 64 cached at 0.4, 5 of audio at 32, 58 at 4; 36 at 16, 112 of audio at 64 dollars per million
		require.Equal(t, "0.0081616", strings.TrimRight(p.CostUSD, "0"))
	}
	require.Equal(t, "realtime/transcription", parts[2].Operation)
	require.Equal(t, "gpt-4o-transcribe", parts[2].Upstream)
	require.Equal(t, "0.000168", strings.TrimRight(parts[2].CostUSD, "0"))
}

// charged waits for the records of the parts of a session that goes on.
func (g *gateway) charged(t *testing.T, requestID string, n int) {
	t.Helper()
	harness.Eventually(t, "the parts in the request log", func() error {
		_, body := g.adminGet(t, "/admin/v1/requests?limit=500")
		var page adminapi.Page[adminapi.Exchange]
		require.NoError(t, json.Unmarshal([]byte(body), &page), body)
		found := 0
		for _, x := range page.Items {
			if x.RequestID == requestID && strings.HasPrefix(x.Operation, "realtime/") {
				found++
			}
		}
		if found != n {
			return errNotYet
		}
		return nil
	})
}

func TestABrowserHasItsKeyInASubprotocol(t *testing.T) {
	t.Parallel()
	g, v := realtimeGateway(t)
	c, response, err := g.dialSession(t, "?model=rt/talk", http.Header{"Origin": {"https://app.test"}}, "realtime",
		"openai-insecure-api-key."+g.Key, "openai-beta.realtime-v1")
	require.NoError(t, err)
	require.Equal(t, "realtime", c.Subprotocol())
	require.JSONEq(t, realtimevendor.Created, next(t, c))
	require.Equal(t, "realtime, openai-beta.realtime-v1", v.Last().Header.Get("Sec-Websocket-Protocol"))
	require.Empty(t, v.Last().Header.Get("Origin"))
	require.Empty(t, response.Header.Get("Set-Cookie"))
	require.Empty(t, response.Header.Get("Openai-Organization"))
	require.Equal(t, "rt", response.Header.Get("X-Modelgate-Provider"))
	_, response, err = g.dialSession(t, "?model=rt/talk", nil, "realtime", "openai-insecure-api-key.mg-wrong")
	require.Error(t, err)
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
}

func TestAHandshakeThatIsRefusedHasAnErrorOfOpenAI(t *testing.T) {
	t.Parallel()
	g, _ := realtimeGateway(t)
	for name, c := range map[string]struct {
		query, key string
		status     int
		code       string
	}{
		"a wrong key":           {"?model=rt/talk", "mg-wrong", 401, "invalid_api_key"},
		"no model":              {"", g.Key, 400, "missing_required_parameter"},
		"another parameter":     {"?call_id=rtc_1", g.Key, 400, "unsupported_parameter"},
		"an unknown model":      {"?model=nobody/talk", g.Key, 404, "model_not_found"},
		"another vendor":        {"?model=echo/echo", g.Key, 400, "unsupported_endpoint"},
		"refused by the vendor": {"?model=rt/unknown", g.Key, 400, "model_not_found"},
		"a vendor without it":   {"?model=rt/plain", g.Key, 502, "upstream_invalid_response"},
		"a vendor that is busy": {"?model=rt/busy", g.Key, 503, "overloaded"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, response, err := g.dialSession(t, c.query, http.Header{"Authorization": {"Bearer " + c.key}})
			require.Error(t, err)
			body, _ := io.ReadAll(response.Body)
			require.Equal(t, c.status, response.StatusCode, "%s", body)
			require.Equal(t, "application/json", response.Header.Get("Content-Type"))
			var e struct {
				Error struct{ Code, Message string }
			}
			require.NoError(t, json.Unmarshal(body, &e), "%s", body)
			require.Equal(t, c.code, e.Error.Code, "%s", body)
			require.NotEmpty(t, response.Header.Get("X-Request-Id"))
			require.Less(t, time.Since(began), 4*time.Second, "no body is awaited")
		})
	}
	for method, want := range map[string]int{http.MethodGet: 426, http.MethodPost: 405} {
		r, err := http.NewRequestWithContext(t.Context(), method, g.URL+"/v1/realtime?model=rt/talk", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+g.Key)
		response, err := g.Client.Do(r)
		require.NoError(t, err)
		_ = response.Body.Close()
		require.Equal(t, want, response.StatusCode)
	}
}

func TestASessionFallsBackAtItsHandshake(t *testing.T) {
	t.Parallel()
	g, v := realtimeGateway(t)
	c, id := g.opened(t, "voice", g.Key)
	h := v.Last().Header
	require.Equal(t, "/openai/realtime?api-version=2025-04-01-preview&deployment=deployed", v.Last().URL.String())
	require.Equal(t, "azures-own-credential", h.Get("Api-Key"))
	require.Empty(t, h.Get("Authorization"), "the other provider's credential")
	say(t, c, "response.create")
	require.JSONEq(t, realtimevendor.Begun, next(t, c))
	say(t, c, "quit")
	require.Equal(t, websocket.CloseNormalClosure, closed(t, c).Code)
	session, parts := g.parts(t, id, 1)
	require.Equal(t, 2, session.Attempts)
	require.Equal(t, "az", session.Provider)
	require.Equal(t, "az", parts[0].Provider)
}

func TestASessionEndsWithItsKey(t *testing.T) {
	t.Parallel()
	g, v := realtimeGateway(t)
	made := harness.Decode(t, harness.Must(t, "", "key", "create", "--data", g.Dir, "--name", "short", "-o", "json"))
	key := made["key"].(string)
	harness.Eventually(t, "the key is in force", func() error { return g.accepts(key) })
	silent, id := g.opened(t, "rt/talk", key)
	other, _ := g.opened(t, "rt/talk", g.Key)
	harness.Must(t, "", "key", "revoke", "--data", g.Dir, made["id"].(string))
	end := closed(t, silent)
	require.Equal(t, websocket.ClosePolicyViolation, end.Code)
	require.Equal(t, "invalid_api_key", end.Text)
	require.Error(t, <-v.Ended, "the provider's connection is gone")
	session, _ := g.parts(t, id, 0)
	require.Equal(t, "rejected", session.Outcome)
	require.Equal(t, "invalid_api_key", session.ErrorCode)
	say(t, other, "response.create")
	require.JSONEq(t, realtimevendor.Begun, next(t, other), "a session of another key goes on")
}

func TestASessionEndsWithItsBudgetOrLimit(t *testing.T) {
	t.Run("counted in memory", func(t *testing.T) { sessionLimits(t) })
	t.Run("counted in Redis", func(t *testing.T) {
		sessionLimits(t, "--limits", redistest.Start(t, redistest.Persistent()...).URL)
	})
}

func sessionLimits(t *testing.T, args ...string) {
	t.Parallel()
	g, _ := realtimeGateway(t, args...)
	for name, c := range map[string]struct {
		flags []string
		code  string
		turns int
	}{
		"a budget":          {[]string{"--budget-usd-month", "0.02"}, "insufficient_quota", 3},
		"a limit of tokens": {[]string{"--limit", "tokens:hour:500"}, "rate_limit_exceeded", 2},
	} {
		t.Run(name, func(t *testing.T) {
			made := harness.Decode(t, harness.Must(t, "", append([]string{"key", "create", "--data", g.Dir, "--name", "poor",
				"-o", "json"}, c.flags...)...))
			key := made["key"].(string)
			harness.Eventually(t, "the key is in force", func() error { return g.accepts(key) })
			conn, id := g.opened(t, "rt/talk", key)
			for turn := 1; turn <= c.turns; turn++ {
				say(t, conn, "response.create")
				for range 3 {
					next(t, conn)
				}
				require.JSONEq(t, realtimevendor.Done, next(t, conn), "turn %d", turn)
			}
			end := closed(t, conn)
			require.Equal(t, websocket.ClosePolicyViolation, end.Code)
			require.Equal(t, c.code, end.Text)
			session, parts := g.parts(t, id, c.turns)
			require.Len(t, parts, c.turns)
			require.Equal(t, c.code, session.ErrorCode)
			_, response, err := g.session(t, "rt/talk", key)
			require.Error(t, err)
			require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
		})
	}
	made := harness.Decode(t, harness.Must(t, "", "key", "create", "--data", g.Dir, "--name", "one", "-o", "json",
		"--limit", "concurrency::1"))
	key := made["key"].(string)
	harness.Eventually(t, "the key is in force", func() error { return g.accepts(key) })
	first, _ := g.opened(t, "rt/talk", key)
	_, response, err := g.session(t, "rt/talk", key)
	require.Error(t, err)
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	say(t, first, "quit")
	closed(t, first)
	harness.Eventually(t, "its place is free", func() error {
		_, _, err := g.session(t, "rt/talk", key)
		return err
	})
}

func TestHowASessionEnds(t *testing.T) {
	t.Parallel()
	g, v := realtimeGateway(t)
	for name, c := range map[string]struct {
		model, end string
		outcome    string
		parts      int
		check      func(t *testing.T, c *websocket.Conn)
	}{
		"the provider breaks the connection": {"rt/talk", "break", "truncated", 0, func(t *testing.T, c *websocket.Conn) {
			require.Equal(t, websocket.CloseAbnormalClosure, closed(t, c).Code)
		}},
		"the provider closes with an error": {"rt/talk", "expire", "failed", 0, func(t *testing.T, c *websocket.Conn) {
			end := closed(t, c)
			require.Equal(t, 4000, end.Code)
			require.Equal(t, "session_expired", end.Text)
		}},
		"the client leaves": {"rt/talk", "nothing", "cancelled", 0, func(t *testing.T, c *websocket.Conn) {
			require.NoError(t, c.NetConn().Close())
		}},
		"the client leaves in a response": {"rt/endless", "response.create", "cancelled", 1,
			func(t *testing.T, c *websocket.Conn) {
				for range 3 {
					next(t, c)
				}
				require.NoError(t, c.NetConn().Close())
			}},
		"after large events": {"rt/large", "response.create", "finished", 1, func(t *testing.T, c *websocket.Conn) {
			for range 4 {
				next(t, c)
			}
			require.Greater(t, len(next(t, c)), 1_500_000)
			say(t, c, "quit")
			require.Equal(t, websocket.CloseNormalClosure, closed(t, c).Code)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			conn, id := g.opened(t, c.model, g.Key)
			say(t, conn, c.end)
			c.check(t, conn)
			<-v.Ended
			session, parts := g.parts(t, id, c.parts)
			require.Equal(t, c.outcome, session.Outcome)
			for _, p := range parts {
				require.Equal(t, c.model == "rt/endless", p.Estimated)
				require.Positive(t, p.OutputTokens)
			}
		})
	}
}

// TestASessionEndsWithTheProcess holds that a gateway that is stopped waits for its sessions no longer than for other
// streams, and that what they used is charged.
func TestASessionEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	v := realtimevendor.New(t)
	dir := t.TempDir()
	g := startRun(t, dir, "--grace", "1s")
	harness.Must(t, "kind: Provider\nname: rt\nvendor: openai\nendpoint: "+v.URL+"/v1\ncredential: {value: sk}\n", "config",
		"apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error { return g.has("rt/talk") })
	c, id := g.opened(t, "rt/talk", g.Key)
	say(t, c, "response.create")
	require.JSONEq(t, realtimevendor.Begun, next(t, c))
	for range 2 {
		next(t, c)
	}
	require.JSONEq(t, realtimevendor.Done, next(t, c))
	stopping := time.Now()
	g.Stop(t)
	require.Less(t, time.Since(stopping), 8*time.Second)
	require.NotEqual(t, websocket.CloseNormalClosure, closed(t, c).Code)

	g = startRun(t, dir)
	session, parts := g.parts(t, id, 1)
	require.Equal(t, "interrupted", session.Outcome, "as any stream that Envoy did not live to tell of")
	require.EqualValues(t, 148, parts[0].OutputTokens)
}
