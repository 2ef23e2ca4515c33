package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/redistest"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// A slowpoke is a provider that answers the n-th request with n, once it may, and with as much text as it is asked
// for.
type slowpoke struct {
	asked atomic.Int64
	may   chan struct{} // closed: at once
}

// ServeHTTP implements http.Handler.
func (p *slowpoke) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := p.asked.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	select {
	case <-p.may:
	case <-r.Context().Done():
		return
	}
	text := fmt.Sprintf("answer-%d ", n) + strings.Repeat("x", int(gjson.GetBytes(body, "seed").Int()))
	if !gjson.GetBytes(body, "stream").Bool() {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`, text)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, piece := range strings.SplitAfter(text, " ") {
		_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", piece)
		w.(http.Flusher).Flush()
	}
	_, _ = fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

const caches = `kind: ResponseCache
name: answers
models: ["slow/*"]
max_temperature: 1
---
kind: ResponseCache
name: paced
models: ["paced/*"]
max_temperature: 1
pace: 5
`

// cachedChat is a request that may be kept.
func cachedChat(text string, more string) string {
	return `{"model":"slow/m","messages":[{"role":"user","content":"` + text + `"}]` + more + `}`
}

// TestTheResponseCache: equal requests get one answer, complete and streamed, also in a stampede, over Envoy.
func TestTheResponseCache(t *testing.T) {
	redis := redistest.Start(t)
	for name, args := range map[string][]string{"in memory": nil,
		"in Redis": {"--cache", redis.URL, "--cache-timeout", "5s"}} {
		t.Run(name, func(t *testing.T) { testTheResponseCache(t, args) })
	}
}

func testTheResponseCache(t *testing.T, args []string) {
	p := &slowpoke{may: make(chan struct{})}
	vendor := cases.NewProvider(t, p.ServeHTTP)
	g := startRun(t, t.TempDir(), args...)
	harness.Must(t, "kind: Provider\nname: slow\nvendor: compatible\nendpoint: "+vendor.URL+"/v1\nmodels: [m]\n---\n"+
		"kind: Provider\nname: paced\nvendor: compatible\nendpoint: "+vendor.URL+"/v1\nmodels: [m]\n---\n"+caches,
		"config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error { return g.has("slow/m") })
	c := g.As(g.Key)
	testStampede(t, p, func() harness.Client { return c })
	require.Positive(t, g.envoyStat(t, `http\..*\.ext_proc\.override_message_timeout_received`),
		"Envoy waits longer for those that wait")
	require.Zero(t, g.envoyStat(t, `http\..*\.ext_proc\.(message_timeouts|override_message_timeout_ignored)`))
	want := c.Do(t, http.MethodPost, chatPath, cachedChat("large", `,"stream":true,"seed":900000`))
	require.Equal(t, "miss", want.Header.Get("X-Modelgate-Cache"))
	harness.Eventually(t, "a large answer is kept", func() error {
		a := c.Do(t, http.MethodPost, chatPath, cachedChat("large", `,"stream":true,"seed":900000`))
		require.Equal(t, 200, a.Status)
		require.Equal(t, string(want.Body), string(a.Body))
		require.Contains(t, a.Header.Get("Content-Type"), "text/event-stream")
		if a.Header.Get("X-Modelgate-Cache") != "hit" {
			return errStill
		}
		return nil
	})
	testPacedReplay(t, g)
	a := c.Do(t, http.MethodPost, chatPath, cachedChat("hi", `,"stream":true`), "Cache-Control", "no-store")
	require.Equal(t, "bypass", a.Header.Get("X-Modelgate-Cache"))
	require.NotContains(t, string(a.Body), "answer-1 ")

	a = c.Do(t, http.MethodPost, chatPath, cachedChat("hi", `,"stream":true`))
	require.Equal(t, "hit", a.Header.Get("X-Modelgate-Cache"))
	harness.Eventually(t, "the hit in the ledger", func() error {
		out, err := harness.Command(t, "", "requests", "--data", g.Dir, a.Header.Get("X-Request-Id"))
		if err == nil {
			require.Contains(t, out, "hit answers (")
		}
		return err
	})
	g.WaitFor(t, `"cache":"hit answers (`)
	testWhoseAHitIs(t, g)
	testSimilarRequests(t, g)
}

// testWhoseAHitIs has a hit belong to the user that the request names, in each dialect that names one.
func testWhoseAHitIs(t *testing.T, g *gateway) {
	t.Helper()
	for path, body := range map[string]string{
		chatPath:        cachedChat("whose", `,"user":"ann"`),
		"/v1/responses": `{"model":"slow/m","input":"whose","safety_identifier":"ann","store":false}`,
		"/v1/messages": `{"model":"slow/m","max_tokens":9,"messages":[{"role":"user","content":"whose"}],` +
			`"metadata":{"user_id":"ann"}}`,
	} {
		c := g.As(g.Key)
		harness.Eventually(t, path+": a hit with its user in the ledger", func() error {
			a := c.Do(t, http.MethodPost, path, body)
			require.Equal(t, 200, a.Status, "%s", a.Body)
			if a.Header.Get("X-Modelgate-Cache") != "hit" {
				return errStill
			}
			harness.Eventually(t, path+": the hit is in the ledger", func() error {
				out, err := harness.Command(t, "", "requests", "--data", g.Dir, "-o", "json", a.Header.Get("X-Request-Id"))
				if err == nil {
					require.Equal(t, "ann", gjson.Get(out, "0.user").Str, "%s: %s", path, out)
				}
				return err
			})
			return nil
		})
	}
}

// testSimilarRequests has the cache compare requests, with a service that finds all texts close and wants its key.
func testSimilarRequests(t *testing.T, g *gateway) {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-embeddings" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-0.25,1]}]}`)
	}))
	t.Cleanup(service.Close)
	first, _, _ := strings.Cut(caches, "---\n")
	harness.Must(t, first+"similar: {url: "+service.URL+"/v1/embeddings, model: small, timeout: 5s}\n"+
		"credential: {value: sk-embeddings}\n", "config", "apply", "--data", g.Dir, "-f", "-")
	c, asked := g.As(g.Key), 0
	var a cases.Answer
	harness.Eventually(t, "a similar request has the answer", func() error {
		asked++
		a = c.Do(t, http.MethodPost, chatPath, cachedChat("the same question"+strings.Repeat("!", asked), `,"stream":true`))
		require.Equal(t, 200, a.Status)
		if a.Header.Get("X-Modelgate-Cache") != "similar" {
			return errStill
		}
		return nil
	})
	require.Equal(t, "1.000", a.Header.Get("X-Modelgate-Cache-Similarity"))
	require.Equal(t, 1, strings.Count(string(a.Body), "[DONE]"))
	require.Equal(t, "miss", c.Do(t, http.MethodPost, chatPath, cachedChat("the same question, 2", `,"stream":true`)).
		Header.Get("X-Modelgate-Cache"), "another number")
	g.WaitFor(t, `"cache":"similar answers (`)
	require.NotContains(t, harness.Must(t, "", "config", "get", "--data", g.Dir, "responsecaches"), "sk-embeddings")
}

// testStampede: of 500 equal requests of clients at once, one goes out.
func testStampede(t *testing.T, p *slowpoke, client func() harness.Client) {
	const stampede = 500
	var all sync.WaitGroup
	results := make(chan string, stampede)
	for range stampede {
		c := client()
		all.Go(func() {
			a := c.Do(t, http.MethodPost, chatPath, cachedChat("hi", `,"stream":true`))
			results <- fmt.Sprint(a.Status, " ", a.Header.Get("X-Modelgate-Cache"), " ",
				strings.Count(string(a.Body), "answer-1 "), " ", strings.Count(string(a.Body), "[DONE]"))
		})
	}
	harness.Eventually(t, "the first has reached the provider", func() error {
		if p.asked.Load() == 0 {
			return errStill
		}
		return nil
	})
	close(p.may)
	all.Wait()
	close(results)
	counts := map[string]int{}
	for r := range results {
		counts[r]++
	}
	require.Equal(t, 1, counts["200 miss 1 1"], counts)
	require.Equal(t, stampede-1, counts["200 shared 1 1"]+counts["200 hit 1 1"], counts)
	require.EqualValues(t, 1, p.asked.Load(), "one goes out")
}

// TestReplicasShareRequestsUnderWay: the same, to four replicas.
func TestReplicasShareRequestsUnderWay(t *testing.T) {
	p := &slowpoke{may: make(chan struct{})}
	vendor := cases.NewProvider(t, p.ServeHTTP)
	c := startClusterOf(t, []configv1.Object{
		&configv1.Provider{Name: "slow", Vendor: "compatible", Endpoint: vendor.URL + "/v1", Models: []string{"m"}},
		&configv1.ResponseCache{Name: "answers", MaxTemperature: 1},
	}, "--cache", redistest.Start(t).URL, "--cache-timeout", "5s")
	testStampede(t, p, func() harness.Client { // each with a connection of its own, so that all replicas have some
		g := harness.Gateway{URL: c.URL, Key: c.Key, Client: harness.ClientFor(t, filepath.Join(c.Dir, "ca.crt"))}
		return g.As(c.Key)
	})
	for _, extproc := range c.extprocs {
		extproc.WaitFor(t, `"cache":"`)
	}
}

// testPacedReplay: a kept stream comes in its pieces, and a client can leave in the middle of it.
func testPacedReplay(t *testing.T, g *gateway) {
	first := g.openModel(t, "paced/m", "hi")
	want, err := io.ReadAll(first.Body)
	require.NoError(t, err)
	harness.Eventually(t, "the stream is replayed", func() error {
		began := time.Now()
		again := g.openModel(t, "paced/m", "hi")
		got, err := io.ReadAll(again.Body)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		if again.Header.Get("X-Modelgate-Cache") != "hit" {
			return errStill
		}
		require.Contains(t, again.Header.Get("Content-Type"), "text/event-stream")
		require.Greater(t, time.Since(began), time.Second/5*time.Duration(strings.Count(string(got), "\n\n")-1))
		return nil
	})
	require.NoError(t, g.openModel(t, "paced/m", "hi").Body.Close())
	g.WaitFor(t, `"outcome":"cancelled","cut_by":"client"`)
}
