package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tiktoken-go/tokenizer"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// A meteredVendor streams texts word by word and counts the tokens of what it has sent, by the vocabulary of OpenAI's
// models. Streams of the model "cut" break off.
type meteredVendor struct {
	codec tokenizer.Codec

	mu   sync.Mutex // guards what follows
	sent map[string]counted
}

// counted is what the vendor has counted for a model.
type counted struct{ requests, input, output int64 }

func newMeteredVendor(t *testing.T) *meteredVendor {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	require.NoError(t, err)
	return &meteredVendor{codec: codec, sent: map[string]counted{}}
}

func (v *meteredVendor) count(text string) int64 {
	ids, _, err := v.codec.Encode(text)
	if err != nil {
		panic(err) // it takes any text
	}
	return int64(len(ids))
}

var vocabulary = strings.Fields(`the gateway streams answers from many providers and counts what each has used because money is not a log
	international infrastructure accounts reconcile exactly when every exchange ends once whether it finished failed or was cancelled by
	somebody who left early 2026 quarterly 17,450 dollars "quoted" (parenthesised) résumé naïve`)

// ServeHTTP answers a request for a stream.
func (v *meteredVendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Model    string `json:"model"`
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &asked) != nil || len(asked.Messages) != 1 {
		http.Error(w, "what is this?", http.StatusBadRequest)
		return
	}
	// OpenAI counts 3 tokens for each message and for the beginning of the answer, and its role.
	used := counted{requests: 1, input: v.count(asked.Messages[0].Content) + 3 + 1 + 3}
	words := 60 + rand.IntN(80)
	cut := words
	if asked.Model == "cut" {
		cut = 1 + rand.IntN(words-1)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	var text strings.Builder
	for range cut {
		word := " " + vocabulary[rand.IntN(len(vocabulary))]
		quoted, _ := json.Marshal(word)
		if r.Context().Err() != nil {
			break
		}
		text.WriteString(word)
		_, _ = fmt.Fprintf(w,
			`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`+"\n\n", quoted)
		_ = http.NewResponseController(w).Flush()
		if asked.Model == "left" {
			// as fast as models write: what is sent before it is noticed that a client has left, nobody but the vendor sees
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	used.output = v.count(text.String())
	finished := asked.Model == "whole" || asked.Model == "left" && r.Context().Err() == nil
	if finished {
		_, _ = fmt.Fprintf(w,
			`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+
				`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`+"\n\ndata: [DONE]\n\n",
			used.input, used.output, used.input+used.output)
	}
	v.mu.Lock()
	sum := v.sent[asked.Model]
	v.sent[asked.Model] = counted{sum.requests + 1, sum.input + used.input, sum.output + used.output}
	v.mu.Unlock()
	if !finished && asked.Model == "cut" {
		// What Envoy has read of a connection when it breaks, it may drop. A vendor's text is on its way for longer than
		// this.
		<-time.After(5 * time.Millisecond)
		panic(http.ErrAbortHandler) // breaks the connection
	}
}

// ledgerUsage returns what the ledger has of each model since a time.
func (g *gateway) ledgerUsage(t *testing.T, since time.Time) map[string]counted {
	t.Helper()
	query := url.Values{"start_time": {strconv.FormatInt(since.Unix(), 10)}, "bucket_width": {"1d"},
		"group_by": {"model"}, "limit": {"31"}}
	status, body := g.adminGet(t, "/v1/organization/usage/completions?"+query.Encode())
	require.Equal(t, http.StatusOK, status, body)
	var page struct {
		Data []struct {
			Results []struct {
				Model    string `json:"model"`
				Requests int64  `json:"num_model_requests"`
				Input    int64  `json:"input_tokens"`
				Output   int64  `json:"output_tokens"`
			} `json:"results"`
		} `json:"data"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &page))
	used := map[string]counted{}
	for _, bucket := range page.Data {
		for _, r := range bucket.Results {
			sum := used[r.Model]
			used[r.Model] = counted{sum.requests + r.Requests, sum.input + r.Input, sum.output + r.Output}
		}
	}
	return used
}

// TestStreamsAreChargedAsTheProviderCounts plays ten thousand streams: a third ends well, a third is cancelled by the
// client at random, a third is cut by the provider.
func TestStreamsAreChargedAsTheProviderCounts(t *testing.T) {
	const atOnce = 150
	streams := testenv.Size(2_000, 10_000)
	vendor := newMeteredVendor(t)
	upstream := httptest.NewServer(vendor)
	t.Cleanup(upstream.Close)
	g := startRun(t, t.TempDir())
	begin := time.Now()
	g.Apply(t, &configv1.Provider{Name: "metered", Vendor: "openai", Endpoint: upstream.URL,
		Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "credential"}}})
	harness.Eventually(t, "the provider", func() error { return g.has("metered/whole") })

	models := []string{"whole", "left", "cut"}
	var turns sync.WaitGroup
	for worker := range atOnce {
		// Each has a connection of its own: Envoy closes one on which most streams are reset, which is how some floods look.
		own := &gateway{&harness.Gateway{URL: g.URL, Key: g.Key,
			Client: harness.ClientFor(t, filepath.Join(g.Dir, "ca.crt"))}}
		turns.Go(func() {
			for n := worker; n < streams; n += atOnce {
				if err := own.stream(models[n%len(models)]); err != nil {
					t.Errorf("stream %d: %v", n, err)
				}
			}
		})
	}
	turns.Wait()

	var charged map[string]counted
	harness.Eventually(t, "every stream is in the ledger", func() error {
		charged = g.ledgerUsage(t, begin)
		total := int64(0)
		for _, m := range models {
			total += charged["metered/"+m].requests
		}
		if total != int64(streams) {
			return fmt.Errorf("%d of %d", total, streams)
		}
		return nil
	})
	vendor.mu.Lock()
	defer vendor.mu.Unlock()
	for _, m := range models {
		t.Logf("%s: the provider counted %+v, charged is %+v", m, vendor.sent[m], charged["metered/"+m])
	}
	require.Equal(t, vendor.sent["whole"], charged["metered/whole"], "to the token, where the provider reports it")
	for _, m := range []string{"left", "cut"} {
		sent, billed := vendor.sent[m], charged["metered/"+m]
		require.InEpsilon(t, sent.input, billed.input, 0.03, m)
		require.InEpsilon(t, sent.output, billed.output, 0.03, m)
	}
}

// stream asks for a stream and reads it to the end it has. Of the model "left" the client leaves at random.
func (g *gateway) stream(model string) error {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	prompt := strings.Join(vocabulary[:1+rand.IntN(len(vocabulary)-1)], " ")
	body, err := json.Marshal(map[string]any{"model": "metered/" + model, "stream": true,
		"messages": []any{map[string]any{"role": "user", "content": prompt}}})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/chat/completions",
		strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", "application/json")
	response, err := g.Client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	// one that is cut before it has said anything has a status
	if response.StatusCode != http.StatusOK && model != "cut" {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	if model == "left" {
		_, _ = io.CopyN(io.Discard, response.Body, int64(2000+rand.IntN(12_000)))
		leave()
		return nil
	}
	read, err := io.ReadAll(response.Body)
	if model == "whole" && (err != nil || !strings.HasSuffix(string(read), "data: [DONE]\n\n")) {
		return fmt.Errorf("it did not end well: %w", err)
	}
	return nil
}
