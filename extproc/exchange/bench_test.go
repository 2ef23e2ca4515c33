package exchange_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/provider/openai"
)

// BenchmarkChat is all that is decided about a chat completion of 200 bytes that is not streamed.
func BenchmarkChat(b *testing.B) {
	p, err := exchange.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: "a", Vendor: "openai"}, Credential: "sk"}, openai.Provider())
	require.NoError(b, err)
	key := auth.Generate().Reveal()
	c := &exchange.Config{Hasher: auth.NewHasher([]byte("pepper")), Providers: map[string]*exchange.Provider{"a": p}}
	c.Keys = map[auth.Hash]*configv1.Key{c.Hasher.Hash(key): {Name: "k"}}
	env := &exchange.Env{Now: time.Now, NewID: func() string { return "id" }}
	headers := exchange.Headers{
		{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/chat/completions"}, {Name: "authorization", Value: "Bearer " + key},
		{Name: "content-type", Value: "application/json"}, {Name: "user-agent", Value: "x"}, {Name: "x-request-id", Value: "r"},
	}
	body := []byte(`{"model":"a/gpt-4.1","messages":[{"role":"user","content":"Why is the sky blue, and why is it red in the evening? Please answer in two sentences that a child understands."}],"max_tokens":100,"temperature":0.5}`)
	status := exchange.Headers{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "application/json"}, {Name: "server", Value: "x"}}
	answer := []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4.1-2025-04-14","choices":[{"index":0,"message":{"role":"assistant","content":"Because.","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`)
	b.ReportAllocs()
	for b.Loop() {
		x := exchange.New(env, c)
		x.RequestHeaders(headers, false)
		x.RequestBody(body)
		x.ResponseHeaders(status, exchange.Facts{Cluster: "a/first", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream}, false)
		x.ResponseBody(answer, true)
		if r := x.Close(); r.Outcome != exchange.OutcomeFinished {
			b.Fatal(r.Outcome, r.Error)
		}
	}
}
