package pitfalls

import (
	"bufio"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	names "github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/test/harness"
)

func moreEnvoyRows(on onGateway, apart onApart) []row {
	return []row{
		{81, "each attempt is made from the client's own request", on(attemptsApart)},
		{82, "requests at the same time share nothing", on(nothingShared)},
		{83, "a configuration that could not be read whole is not published", apart(interruptedReads)},
		{84, "a large configuration arrives, and of a change only what has changed", apart(largeConfiguration)},
		{85, "what is malformed is refused, and stops nothing", on(malformed)},
		{86, "HTTP/2 is spoken to providers that have it, and idle connections that they have closed fail nobody",
			on(upstreamConnections)},
		{87, "the gateway's own headers do nothing where a client sends them", on(forgedHeaders)},
		{88, "the most talkative log tells no secret and no prompt", quietLog},
		{89, "two objects that claim the same are refused, and the stricter of two limits holds", on(conflicts)},
	}
}

func attemptsApart(t *testing.T, g limitGateway) {
	body := `{"model":%q,"max_tokens":9,"temperature":0.5,"stop":["x"],"messages":[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"hi"},` +
		`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + png + `"}}]}],` + tools + `}`
	only := map[string]string{"openai": "openai/m", "anthropic": "anthropic/claude-sonnet-4-5"}
	for model, order := range map[string][2]string{"either": {"openai", "anthropic"},
		"reversed": {"anthropic", "openai"}} {
		fails := func(provider string) {
			g.worker.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
				if strings.HasPrefix(a.path, "/"+provider) {
					answerStatus(w, http.StatusInternalServerError)
					return
				}
				answerLine(w, r, a)
			})
		}
		g.warm(t)
		fails("")
		g.ask(t, g.Key, chatPath, fmt.Sprintf(body, only[order[1]]))
		direct := g.worker.last(1)[0]
		fails(order[0])
		g.ask(t, g.Key, chatPath, fmt.Sprintf(body, model))
		require.Equal(t, 2, g.reached(), model)
		asked := g.worker.last(2)
		require.True(t, strings.HasPrefix(asked[0].path, "/"+order[0]), "%s: %s", model, asked[0].path)
		again := asked[1]
		require.Equal(t, direct.path, again.path)
		require.Equal(t, direct.body.Raw, again.body.Raw)
		for name := range again.header {
			require.Equal(t, direct.header.Get(name), again.header.Get(name), "%s: %s", model, name)
		}
		require.Len(t, again.header, len(direct.header), "nothing of the first provider: %v", again.header)
	}
}

// nothingShared has many ask at once, each for an answer of its own, and of another form than the next.
func nothingShared(t *testing.T, g limitGateway) {
	const clients, rounds = 24, 8
	g.worker.answers(func(w http.ResponseWriter, _ *http.Request, a asking) {
		var n int
		_, _ = fmt.Sscanf(a.line, "line-%d", &n)
		what := completion{text: "answer to " + a.line, stop: "stop", usage: counts{prompt: 1000 + n, output: n}}
		d := openAI
		if strings.HasPrefix(a.path, "/anthropic") {
			d = messages
		}
		if a.body.Get("stream").Bool() {
			for _, e := range d.stream(what) {
				write(w, e)
				<-time.After(3 * time.Millisecond) // so that others are in between
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, d.unary(what))
	})
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for round := range rounds {
				n := 1 + c*rounds + round
				model := []string{"openai/m", "anthropic/claude-sonnet-4-5"}[n%2]
				streamed := n%4 < 2
				body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"line-%d"}],"stream":%t`, model, n, streamed)
				if streamed {
					body += `,"stream_options":{"include_usage":true}`
				}
				r, err := g.try(g.Key, chatPath, body+"}")
				if err != nil {
					t.Errorf("line %d: %v", n, err)
					continue
				}
				if text, used := answered(r.body, streamed); text != fmt.Sprint("answer to line-", n) || used != int64(1000+2*n) {
					t.Errorf("line %d, of %s, was answered %q for %d tokens: %s", n, model, text, used, r.body)
				}
			}
		})
	}
	all.Wait()
}

// answered is the text of an answer and the tokens that it took.
func answered(body string, streamed bool) (text string, used int64) {
	if !streamed {
		return gjson.Get(body, "choices.0.message.content").Str, gjson.Get(body, "usage.total_tokens").Int()
	}
	for e := range strings.SplitSeq(body, "\n\n") {
		e = strings.TrimPrefix(e, "data: ")
		text += gjson.Get(e, "choices.0.delta.content").Str
		used += gjson.Get(e, "usage.total_tokens").Int()
	}
	return text, used
}

// raw sends bytes over TLS, as no library would, and returns the status and body of the answer.
func (g limitGateway) raw(t *testing.T, request string) (int, string) {
	t.Helper()
	config := g.Client.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: soon}, "tcp", strings.TrimPrefix(g.URL, "https://"), config)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err, "%q", request)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func malformed(t *testing.T, g limitGateway) {
	send := func(authorization, body string) {
		t.Helper()
		status, answer := g.raw(t,
			fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				chatPath, authorization, len(body), body))
		require.GreaterOrEqual(t, status, 400, "%.200q %.200q", authorization, body)
		require.Less(t, status, 500, "%.200q %.200q: %s", authorization, body, answer)
		require.NotEmpty(t, gjson.Get(answer, "error.message").Str, answer)
	}
	for _, authorization := range []string{"", "Bearer", "Bearer ", "B", "Bearer\t", "bearer:x", "Bearer " + g.Key[:5],
		"Bearer " + g.Key + g.Key, "Bearer sk-mg-", "Basic Og==",
		"Basic \xff\xfe", "\xc3\x28", "Bearer \x80\x81", "Digest username=\"\"", "Bearer " +
			strings.Repeat("\xf0\x9f\x92\xa9", 500), ",,,,", "Bearer " + g.Key + ", Bearer " + g.Key} {
		send(authorization, chatOf("openai/m", 2, ""))
	}
	for _, body := range []string{"", " ", "null", "true", "1e999", `""`, "[]", "[[[[", "{", "}", `{"`, `{"model"`,
		`{"model":}`, "\x00", "\xef\xbb\xbf", "\xff\xfe{\x00}\x00",
		`{"model":null}`, `{"model":{}}`, `{"model":[]}`, `{"model":"\ud800"}`, `{"model":"openai/m"}`,
		`{"model":"openai/m","messages":null}`, `{"model":"openai/m","messages":{}}`,
		`{"model":"openai/m","messages":[null]}`, `{"model":"openai/m","messages":[[]]}`,
		`{"model":"openai/m","messages":[{}]}`, `{"model":"openai/m","messages":[{"role":7}]}`,
		`{"model":"/","messages":[{"role":"user","content":"x"}]}`,
		`{"model":"openai/","messages":[{"role":"user","content":"x"}]}x`,
		chatOf("openai/m", 2, `,"n":1e400`), chatOf("openai/m", 2, `,"tools":7`), chatOf("openai/m", 2, `,"stream":"yes"`),
		chatOf("openai/m", 2, `,"x":`+strings.Repeat(`{"a":[`, 30_000)), chatOf("openai/m", 2, `,"metadata":"`+"\xff"+`"`),
	} {
		send("Bearer "+g.Key, body)
	}
	require.Zero(t, g.reached())
	require.Equal(t, http.StatusOK, g.ask(t, g.Key, chatPath, chatOf("openai/m", 2, "")).status)
	require.NotContains(t, g.Output(), "panic")
}

func upstreamConnections(t *testing.T, g limitGateway) {
	var mu sync.Mutex
	protocols, connections := map[string]int{}, map[string]bool{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost {
			mu.Lock()
			protocols[r.Proto]++
			connections[r.RemoteAddr] = true
			mu.Unlock()
		}
		answerText(w, "yes")
	})
	var objects []configv1.Object
	for _, two := range []bool{true, false} {
		s := httptest.NewUnstartedServer(handler)
		s.EnableHTTP2 = two
		s.Config.IdleTimeout = 20 * time.Millisecond // sooner than Envoy lets go of a connection
		s.StartTLS()
		t.Cleanup(s.Close)
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		objects = append(objects, &configv1.Provider{Name: fmt.Sprintf("h2-%t", two), Vendor: "openai", Endpoint: s.URL,
			Tls: &configv1.UpstreamTLS{Ca: string(ca)}})
	}
	g.Apply(t, objects...)
	harness.Eventually(t, "configuration in force", func() error { return g.has("h2-true/x", "h2-false/x") })
	const requests = 60
	// about as long as connections are kept, so that some are closed just now
	pause := time.NewTicker(17 * time.Millisecond)
	defer pause.Stop()
	for n := range requests {
		model := fmt.Sprintf("h2-%t/x", n%2 == 0)
		r := g.ask(t, g.Key, chatPath, chatOf(model, 2, ""))
		require.Equal(t, http.StatusOK, r.status, "%s, request %d: %s", model, n, r.body)
		<-pause.C
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, requests/2, protocols["HTTP/2.0"], protocols)
	require.Equal(t, requests/2, protocols["HTTP/1.1"], protocols)
	require.Greater(t, len(connections), 4, "they were closed meanwhile")
}

func forgedHeaders(t *testing.T, g limitGateway) {
	mighty, _ := g.key(t)
	_, narrow := g.key(t, "--models", "openai/*", "--organization", "narrow")
	forged := []string{names.HeaderKey, mighty, names.HeaderOrganization, "acme", names.HeaderProject, "p",
		names.HeaderProvider, "anthropic", names.HeaderCharge, "mine", names.RoleHeader, names.RoleInternal,
		"x-envoy-max-retries", "9", "x-envoy-retry-on", "5xx", "x-envoy-upstream-rq-timeout-ms", "1",
		"x-envoy-original-path", "/v1/models", "x-envoy-internal", "true",
		"x-envoy-original-dst-host", "127.0.0.1:1", "x-envoy-decorator-operation", "forged", "x-forwarded-for", "127.0.0.1",
		"x-forwarded-host", "elsewhere.test", "x-ai-eg-model", "claude-sonnet-4-5"}
	c := g.As(narrow)
	requireClean := func(what string) {
		t.Helper()
		for _, a := range g.worker.last(g.reached()) {
			require.True(t, strings.HasPrefix(a.path, "/openai/"), "%s: %s", what, a.path)
			require.Equal(t, "Bearer credential", a.header.Get("Authorization"))
			for i := 0; i < len(forged); i += 2 {
				require.Empty(t, a.header.Get(forged[i]), "%s: %s", what, forged[i])
			}
		}
	}
	a := c.Do(t, http.MethodPost, chatPath, chatOf("anthropic/claude-sonnet-4-5", 2, ""), forged...)
	require.Equal(t, http.StatusNotFound, a.Status, "%s", a.Body)
	require.Zero(t, g.reached(), "no header lets a key do what it may not")
	a = c.Do(t, http.MethodPost, chatPath, chatOf("openai/m", 2, ""), forged...)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	a = c.Do(t, http.MethodPost, "/v1/embeddings", `{"model":"openai/m","input":"hi"}`, forged...)
	require.NotEqual(t, http.StatusNotFound, a.Status)
	require.Equal(t, 3, g.reached(), "an answer without embeddings is a failure, and the provider is asked again")
	requireClean("chat and embeddings")
	g.worker.answers(func(w http.ResponseWriter, _ *http.Request,
		_ asking) {
		answerStatus(w, http.StatusServiceUnavailable)
	})
	c.Do(t, http.MethodPost, "/v1/ocr", "{}", forged...)
	require.Equal(t, 1, g.reached(), "nobody's retries")
	for name := range g.worker.last(1)[0].header { // of a Route what else a client sends is the provider's business
		require.NotRegexp(t, "(?i)^x-(modelgate|envoy|forwarded)-", name)
	}
	file := g.client.Upload(t, "batch", harness.ChatLine("line-1", "openai/m", "hi"))
	require.Equal(t, http.StatusNotFound, c.Do(t, http.MethodGet, "/v1/files/"+file, "", forged...).Status,
		"nor be somebody else")
	require.Equal(t, http.StatusUnauthorized, g.client.Do(t, http.MethodGet, "/v1/models", "",
		append(forged, "Authorization", "")...).Status)
}

func quietLog(t *testing.T) {
	g := limitGateway{overJobs(t, "--log-level", "debug")}
	g.Apply(t, &configv1.Provider{Name: "secretive", Vendor: "anthropic", Endpoint: g.worker.URL + "/anthropic/v1",
		Headers:    map[string]string{"x-brand": "header-of-ours"},
		Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "credential-of-ours"}}},
		&configv1.Route{Name: "rerank", PathPrefix: "/v1/ocr", Provider: "secretive"})
	harness.Eventually(t, "configuration in force", func() error { return g.has("secretive/x") })
	g.worker.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
		if a.body.Get("messages.0.content").Raw == `"fail"` {
			answerStatus(w, http.StatusInternalServerError)
			return
		}
		answerText(w, "the-answer-itself")
	})
	for i, body := range []string{"the-prompt-itself", "fail"} {
		for path, text := range map[string]string{
			chatPath:         `{"model":"secretive/claude-sonnet-4-5","user":"somebody","messages":[{"role":"user","content":%q}]}`,
			"/v1/ocr":        `{"query":%q}`,
			"/v1/embeddings": `{"model":"openai/m","input":%q}`, "/v1/completions": `{"model":"openai/m","prompt":%q,`,
		} {
			g.client.Do(t, http.MethodPost, path, fmt.Sprintf(text, body), "Cookie", "session=cookie-of-a-client",
				"X-Request-Id", fmt.Sprint("quiet-", i), "X-Api-Key", "key-of-a-client")
		}
	}
	g.client.Do(t, http.MethodGet, "/v1/models?key=query-of-a-client", "", "Authorization", "Bearer sk-mg-mistyped-key",
		"X-Request-Id", "quiet-last")
	g.WaitFor(t, `"request_id":"quiet-1"`)
	g.Stop(t)
	out := g.Output()
	require.Contains(t, out, `"level":"debug"`, "it is talkative")
	for _, secret := range []string{g.Key, g.Key[8:], "credential-of-ours", "header-of-ours", "the-prompt-itself",
		"the-answer-itself", "cookie-of-a-client", "key-of-a-client", "mistyped-key", "query-of-a-client"} {
		require.NotContains(t, out, secret)
	}
}

func conflicts(t *testing.T, g limitGateway) {
	for what, document := range map[string]string{
		"two routes of one path":     "kind: Route\nname: other\npath_prefix: /v1/ocr/\nprovider: openai\n",
		"two gateways on a port":     "kind: Gateway\nname: a\nport: 18443\n---\nkind: Gateway\nname: b\nport: 18443\n",
		"an object given twice":      "kind: Model\nname: twice\ntargets: [{provider: openai, model: a}]\n---\nkind: Model\nname: twice\ntargets: [{provider: openai, model: b}]\n",
		"a route of a path of ours":  "kind: Route\nname: own\npath_prefix: /v1/chat\nprovider: openai\n",
		"two ports of one gateway":   "kind: Gateway\nname: c\nport: 18444\nplain_http_port: 18444\n",
		"a header given in two ways": "kind: Provider\nname: p\nvendor: openai\nheaders: {X-A: a, x-a: b}\n",
	} {
		out, err := harness.Command(t, document, "config", "apply", "--data", g.Dir, "-f", "-")
		require.Error(t, err, "%s: %s", what, out)
	}
	limit := func(name string, requests uint64) *configv1.RateLimit {
		return &configv1.RateLimit{Name: name, Domain: "requests",
			Descriptors: []*configv1.RateLimitDescriptor{{Key: "organization", Value: "limited-twice",
				RateLimit: &configv1.RateLimitPolicy{Unit: configv1.Unit_HOUR, RequestsPerUnit: requests}}}}
	}
	g.Apply(t, &configv1.Organization{Name: "limited-twice"}, limit("loose", 50), limit("strict", 3),
		limit("a-loose", 40))
	_, key := g.key(t, "--organization", "limited-twice")
	harness.Eventually(t, "the limits hold", func() error {
		if g.ask(t, key, chatPath, chatOf("openai/m", 2, "")).header.Get("x-ratelimit-limit-requests") != "3" {
			return errNotYet
		}
		return nil
	})
	require.LessOrEqual(t, g.atOnce(t, 10, key, chatOf("openai/m", 2, ""))[http.StatusOK], 2)
	require.Equal(t, http.StatusTooManyRequests, g.ask(t, key, chatPath, chatOf("openai/m", 2, "")).status)
}
