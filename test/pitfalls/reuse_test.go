package pitfalls

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

func nothingAccumulates(t *testing.T, g limitGateway) {
	const clients, rounds = 16, 12
	own := map[string]string{"x-brand": "ours", "x-team": "models"}
	provider := func(name, vendor string) *configv1.Provider {
		return &configv1.Provider{Name: name, Vendor: vendor, Endpoint: g.worker.URL + "/" + vendor + "/v1", Headers: own,
			Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "credential"}}}
	}
	g.Apply(t, provider("branded", "openai"), provider("branded-too", "anthropic"),
		&configv1.Model{Name: "branded", Targets: []*configv1.Target{{Provider: "branded", Model: "m"},
			{Provider: "branded-too", Model: "claude-sonnet-4-5", Priority: 1}}})
	harness.Eventually(t, "configuration in force", func() error { return g.has("branded") })
	before := harness.Must(t, "", "config", "get", "--data", g.Dir, "providers", "branded", "-o", "json")
	var failing atomic.Bool
	g.worker.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
		if failing.Load() && strings.HasPrefix(a.path, "/openai") {
			answerStatus(w, http.StatusInternalServerError)
			return
		}
		answerLine(w, r, a)
	})
	body := chatOf("branded", 2, `,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]`)
	body = strings.Replace(body, `"messages":[{"role":"user","content":"hi"}],`, "", 1)
	for _, fails := range []bool{false, true} {
		failing.Store(fails)
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for range rounds {
					if _, err := g.try(g.Key, chatPath, body); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	first := map[string]asking{}
	for _, a := range g.worker.last(g.reached()) {
		if _, known := first[a.path]; !known {
			first[a.path] = a
		}
		for name, value := range own {
			require.Equal(t, []string{value}, a.header.Values(name))
		}
		require.Equal(t, first[a.path].body.Raw, a.body.Raw)
		require.Equal(t, first[a.path].header, a.header)
	}
	require.Len(t, first, 2, "both have been asked")
	require.Equal(t, 3*clients*rounds, g.reached())
	require.Equal(t, before, harness.Must(t, "", "config", "get", "--data", g.Dir, "providers", "branded", "-o", "json"))
}

// everyRoleCounts puts a long text into each place of a request, of which a limit of tokens must take notice.
func everyRoleCounts(t *testing.T, g limitGateway) {
	text := strings.Repeat("some words ", 400)
	calling := `{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"clock","arguments":%q}}]}`
	places := map[string]string{
		"system":    `"messages":[{"role":"system","content":%q},{"role":"user","content":"hi"}]`,
		"developer": `"messages":[{"role":"developer","content":%q},{"role":"user","content":"hi"}]`,
		"user":      `"messages":[{"role":"user","content":%q}]`,
		"a part":    `"messages":[{"role":"user","content":[{"type":"text","text":%q}]}]`,
		"assistant": `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":%q},{"role":"user","content":"hi"}]`,
		"a call": `"messages":[{"role":"user","content":"hi"},` + calling +
			`,{"role":"tool","tool_call_id":"c","content":"noon"}]`,
		"its result": `"messages":[{"role":"user","content":"hi"},` + strings.Replace(calling, "%q", `"{}"`, 1) +
			`,{"role":"tool","tool_call_id":"c","content":%q}]`,
		"a tool":      `"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"clock","description":%q,"parameters":{"type":"object"}}}]`,
		"a schema":    `"messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","description":%q}}}`,
		"a user name": `"messages":[{"role":"user","name":%q,"content":"hi"}]`,
	}
	for place, body := range places {
		_, small := g.key(t, "--tpm", "500")
		whole := `{"model":"openai/m","max_tokens":2,` + body + `}`
		require.Equal(t, http.StatusOK, g.ask(t, small, chatPath, fmt.Sprintf(whole, "x")).status, place)
		r := g.ask(t, small, chatPath, fmt.Sprintf(whole, text))
		require.Equal(t, http.StatusTooManyRequests, r.status, "%s: %s", place, r.body)
		require.Equal(t, "tokens", r.err.Type, place)
	}
	require.Equal(t, len(places), g.reached(), "the others have reached nobody")
	// Of an answer whose usage is not told, the arguments of calls count as its text does.
	for _, what := range []completion{{text: text, stop: "stop"},
		{calls: []call{{id: "c", name: "clock", arguments: quote(text)}}, stop: "tool_calls"}} {
		g.worker.answers(func(w http.ResponseWriter, _ *http.Request, _ asking) {
			all := openAI.stream(what)
			write(w, append(all[:len(all)-2:len(all)-2], end)...)
		})
		_, key := g.key(t, "--tpm", "100000")
		r := g.ask(t, key, chatPath, chatOf("openai/m", 2, `,"stream":true`))
		require.Equal(t, http.StatusOK, r.status)
		harness.Eventually(t, "what was said is counted", func() error {
			if left := g.ask(t, key, chatPath, chatOf("echo/echo", 2, "")).number("x-ratelimit-remaining-tokens"); left < 0 ||
				left > 99_300 {
				return fmt.Errorf("%d are left", left)
			}
			return nil
		})
	}
}

func nothingReused(t *testing.T, g limitGateway) {
	var n atomic.Int64
	g.worker.answers(func(w http.ResponseWriter, _ *http.Request,
		_ asking) {
		answerText(w, fmt.Sprint("answer ", n.Add(1)))
	})
	_, other := g.key(t, "--organization", "reuse")
	body := chatOf("openai/m", 2, `,"temperature":0,"seed":1`)
	for i, key := range []string{g.Key, g.Key, other, g.Key} {
		a := g.As(key).Do(t, http.MethodPost, chatPath, body, "Idempotency-Key", "same", "X-Request-Id", "same",
			"If-None-Match", `"same"`)
		require.Equal(t, http.StatusOK, a.Status)
		require.Equal(t, fmt.Sprint("answer ", i+1), gjson.GetBytes(a.Body, "choices.0.message.content").Str)
		require.Empty(t, a.Header.Get("Age")+a.Header.Get("Etag")+a.Header.Get("Idempotency-Replayed"))
	}
	require.Equal(t, 4, g.reached(), "each was asked of the provider")

	// What a client repeats by intent, creating a batch, is known by who asks and by what.
	create := func(c harness.Client, file string) (int, string) {
		a := c.Do(t, http.MethodPost, "/v1/batches",
			fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, file, chatPath), "Idempotency-Key",
			"of-a-batch")
		return a.Status, gjson.GetBytes(a.Body, "id").Str
	}
	line := harness.ChatLine("line-1", "openai/m", "hi")
	mine, second, theirs := g.client.Upload(t, "batch", line), g.client.Upload(t, "batch", line), g.As(other).Upload(t,
		"batch", line)
	status, batch := create(g.client, mine)
	require.Equal(t, http.StatusOK, status)
	status, again := create(g.client, mine)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, batch, again, "the same request")
	status, _ = create(g.client, second)
	require.Equal(t, http.StatusConflict, status, "another under the same key")
	status, another := create(g.As(other), theirs)
	require.Equal(t, http.StatusOK, status, "somebody else's")
	require.NotEqual(t, batch, another)
	status, _ = create(g.As(other), mine)
	require.NotEqual(t, http.StatusOK, status)
	g.client.Await(t, batch)
	g.As(other).Await(t, another)
}

func formAsAsked(t *testing.T, g limitGateway) {
	what := completion{text: "yes", stop: "stop", usage: counts{prompt: 20, output: 7}}
	g.worker.answers(func(w http.ResponseWriter, _ *http.Request, a asking) {
		d := openAI
		if strings.HasPrefix(a.path, "/anthropic") {
			d = messages
		}
		if a.body.Get("stream").Bool() {
			write(w, d.stream(what)...)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, d.unary(what))
	})
	for model := range twoDialects {
		for _, streamed := range []bool{false, true, true, false, true} {
			body := chatOf(model, 2, "")
			if streamed {
				body = chatOf(model, 2, `,"stream":true,"stream_options":{"include_usage":true}`)
			}
			r := g.ask(t, g.Key, chatPath, body)
			require.Equal(t, http.StatusOK, r.status)
			text, used := answered(r.body, streamed)
			require.Equal(t, "yes", text)
			require.EqualValues(t, 27, used)
			if streamed {
				require.Equal(t, "text/event-stream; charset=utf-8", r.header.Get("Content-Type"))
				require.Equal(t, "yes", streamedText(t, r.body))
				require.Empty(t, r.header.Get("Content-Length"))
			} else {
				require.Equal(t, "application/json", r.header.Get("Content-Type"))
				require.Equal(t, fmt.Sprint(len(r.body)), r.header.Get("Content-Length"))
			}
		}
	}
	require.Equal(t, 10, g.reached())
}
