package exchange_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/bodies"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/vendors/anthropic"
	"github.com/modelgate/modelgate/internal/provider/vendors/gemini"
	"github.com/modelgate/modelgate/internal/provider/vendors/groq"
	"github.com/modelgate/modelgate/internal/provider/vendors/openai"
	"github.com/modelgate/modelgate/internal/respcache"
	"github.com/modelgate/modelgate/internal/usage"
)

// BenchmarkChat is all that is decided about a chat completion of 200 bytes that is not streamed: for a key without
// limits and without a ledger, and with limits of requests, tokens and concurrency, budgets of the key and its
// organization, and a record on disk; and without them about one of 20 KB, with the bodies kept, and with a response
// cache that has the answer or does not keep it.
func BenchmarkChat(b *testing.B) {
	b.Run("nothing", func(b *testing.B) {
		benchmarkChat(b, &exchange.Env{}, &configv1.Key{Name: "k"}, nil, 1)
	})
	b.Run("20KB", func(b *testing.B) {
		benchmarkChat(b, &exchange.Env{}, &configv1.Key{Name: "k"}, nil, 180)
	})
	b.Run("20KB to one of three", func(b *testing.B) {
		benchmarkChat(b, &exchange.Env{}, &configv1.Key{Name: "k"}, nil, 180, anthropic.Provider(), gemini.Provider())
	})
	b.Run("bodies kept", func(b *testing.B) {
		keeper := bodies.New(&keptBodies{}, prometheus.NewRegistry(), zap.NewNop())
		ctx, cancel := context.WithCancel(context.Background())
		b.Cleanup(cancel)
		go keeper.Run(ctx)
		benchmarkChat(b, &exchange.Env{Bodies: keeper}, &configv1.Key{Name: "k", Bodies: &configv1.Bodies{Share: 1}}, nil, 1)
	})
	for name, config := range map[string]*configv1.ResponseCache{
		"cache hit": {Name: "c", MaxTemperature: 1}, "cache bypass": {Name: "c"},
	} {
		b.Run(name, func(b *testing.B) {
			ask, c := chatExchange(b, &exchange.Env{}, &configv1.Key{Name: "k"}, nil, 1)
			caches, err := respcache.Compile([]*configv1.ResponseCache{config}, nil, nil, nil, nil, nil)
			require.NoError(b, err)
			c.Caches = caches
			ask()
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
	b.Run("everything", func(b *testing.B) {
		spool, err := usage.OpenSpool(usage.SpoolOptions{Dir: b.TempDir(), Log: zap.NewNop()})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, spool.Close()) })
		env := &exchange.Env{Limits: limit.NewMemory(limit.Options{}), Spool: spool}
		budget := []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "1000000"}}
		key := &configv1.Key{Name: "k", Organization: "o", Budgets: budget, Limits: []*configv1.Limit{
			{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 1 << 40},
			{Domain: "tokens", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 1 << 40},
			{Domain: "concurrency", RequestsPerUnit: 1 << 20},
		}}
		benchmarkChat(b, env, key, map[string]*configv1.Organization{"o": {Budgets: budget}}, 1)
	})
}

// An answer is a stream of 100 events or chunks: the first, 98 with a piece of text, and the end.
type streamedAnswer struct {
	vendor            provider.Provider
	first, next, last string
}

// streamedAnswers are one of OpenAI's, which passes almost as it came, one of a vendor's that is put right, and one
// that is translated.
func streamedAnswers() map[string]streamedAnswer {
	chunk := func(delta, reason string) string {
		return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4.1-2025-04-14","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":` +
			delta + `,"logprobs":null,"finish_reason":` + reason + `}],"obfuscation":"x7Jq"}` + "\n\n"
	}
	first, next := chunk(`{"role":"assistant","content":"","refusal":null}`, "null"), chunk(`{"content":" gateway"}`,
		"null")
	last := chunk(`{}`, `"stop"`) +
		`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4.1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":98,"total_tokens":107}}` + "\n\ndata: [DONE]\n\n"
	return map[string]streamedAnswer{
		"openai": {openai.Provider(), first, next, last},
		"groq":   {groq.Provider(), first, next, last},
		"anthropic": {anthropic.Provider(),
			`event: message_start` + "\n" +
				`data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":25,"output_tokens":1}}}` + "\n\n" +
				"event: content_block_start\n" +
				`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
			"event: content_block_delta\n" +
				`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" gateway"}}` + "\n\n",
			"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
				"event: message_delta\n" +
				`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":98}}` + "\n\n" +
				"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"},
	}
}

const askChat = `{"model":"a/m","stream":true,"messages":[{"role":"user","content":"Why?"}],"max_tokens":100}`

// BenchmarkStream is what is decided about a streamed answer, in ns a chunk.
func BenchmarkStream(b *testing.B) {
	for _, name := range []string{"openai", "groq", "anthropic"} {
		b.Run(name, func(b *testing.B) {
			benchmarkStream(b, streamedAnswers()[name], "/v1/chat/completions", askChat)
		})
	}
}

// BenchmarkStreamTo is BenchmarkStream for clients of other dialects. Of Anthropic's clients, Claude's answers pass as
// they are.
func BenchmarkStreamTo(b *testing.B) {
	for _, client := range []struct{ name, path, body string }{
		{"messages", "/v1/messages", askChat},
		{"responses", "/v1/responses", `{"model":"a/m","stream":true,"input":"Why?"}`},
		{"gemini", "/v1beta/models/a/m:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"Why?"}]}]}`},
	} {
		for _, vendor := range []string{"openai", "anthropic"} {
			if client.name == "responses" && vendor == "openai" {
				continue // it serves the API itself
			}
			b.Run(client.name+"/"+vendor, func(b *testing.B) {
				benchmarkStream(b, streamedAnswers()[vendor], client.path, client.body)
			})
		}
	}
}

func benchmarkStream(b *testing.B, of streamedAnswer, path, ask string) {
	p, err := routing.NewProvider(&configv1.ResolvedProvider{
		Provider: &configv1.Provider{Name: "a", Vendor: of.vendor.Name}, Credential: "sk"}, of.vendor)
	require.NoError(b, err)
	key := auth.Generate().Reveal()
	c := &exchange.Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper"))},
		Table:     routing.Table{Providers: map[string]*routing.Provider{"a": p}, Catalog: catalog.New(nil)},
	}
	hash := c.Hasher.Hash(key)
	c.Keyring = c.Keyring.With(map[string]*configv1.Key{"k": {Name: "k", Hash: hash[:]}})
	c.Index()
	env := &exchange.Env{Now: time.Now, NewID: func() string { return "1" }}
	headers := exchange.Headers{{Name: ":method", Value: "POST"}, {Name: ":path", Value: path},
		{Name: "authorization", Value: "Bearer " + key}, {Name: "content-type", Value: "application/json"}}
	body := []byte(ask)
	status := exchange.Headers{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "text/event-stream"}}
	b.ReportAllocs()
	for b.Loop() {
		x := exchange.New(env, c)
		x.RequestHeaders(context.Background(), headers, false)
		x.RequestBody(context.Background(), body)
		x.ResponseHeaders(status, exchange.Facts{Cluster: "a/first", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream},
			false)
		x.ResponseBody(context.Background(), []byte(of.first), false)
		for range 98 {
			x.ResponseBody(context.Background(), []byte(of.next), false)
		}
		x.ResponseBody(context.Background(), []byte(of.last), true)
		if r := x.Close(); r.Outcome != metering.OutcomeFinished {
			b.Fatal(r.Outcome, r.Error)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/chunk")
}

func TestMemoryOfARequestInProportion(t *testing.T) {
	ask, _ := chatExchange(t, &exchange.Env{}, &configv1.Key{Name: "k"}, nil, 1)
	require.LessOrEqual(t, testing.AllocsPerRun(100, ask), 23.0)
}

func benchmarkChat(b *testing.B, env *exchange.Env, k *configv1.Key, organizations map[string]*configv1.Organization,
	times int, others ...provider.Provider) {
	ask, _ := chatExchange(b, env, k, organizations, times, others...)
	b.ReportAllocs()
	for b.Loop() {
		ask()
	}
}

// chatExchange returns a function that takes a chat completion from its headers to its record.
func chatExchange(b testing.TB, env *exchange.Env, k *configv1.Key, organizations map[string]*configv1.Organization,
	times int, others ...provider.Provider) (ask func(), c *exchange.Config) {
	model := &configv1.Model{Name: "a/gpt-4.1"}
	providers := map[string]*routing.Provider{}
	for i, v := range append([]provider.Provider{openai.Provider()}, others...) {
		name := string(rune('a' + i))
		p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: name, Vendor: v.Name},
			Credential: "sk"}, v)
		require.NoError(b, err)
		providers[name] = p
		model.Targets = append(model.Targets, &configv1.Target{Provider: name, Model: "gpt-4.1", Priority: uint32(i)})
	}
	key := auth.Generate().Reveal()
	c = &exchange.Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper")), Organizations: organizations},
		Table:     routing.Table{Providers: providers, Catalog: catalog.New(nil)},
	}
	hash := c.Hasher.Hash(key)
	k.Hash = hash[:]
	c.Keyring = c.Keyring.With(map[string]*configv1.Key{"k": k})
	if len(others) > 0 {
		c.Models = map[string]*configv1.Model{model.Name: model}
	}
	c.Index()
	var ids atomic.Int64
	env.Now, env.NewID = time.Now, func() string { return fmt.Sprint(ids.Add(1)) }
	headers := exchange.Headers{
		{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/chat/completions"},
		{Name: "authorization", Value: "Bearer " + key},
		{Name: "content-type", Value: "application/json"}, {Name: "user-agent", Value: "x"},
		{Name: "x-request-id", Value: "r"},
	}
	body := []byte(`{"model":"a/gpt-4.1","messages":[{"role":"user","content":"` +
		strings.Repeat(
			"Why is the sky blue, and why is it red in the evening? Please answer in two sentences that a child understands.",
			times) + `"}],"max_tokens":100,"temperature":0.5}`)
	status := exchange.Headers{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "application/json"},
		{Name: "server", Value: "x"}}
	answer := []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4.1-2025-04-14","choices":[{"index":0,"message":{"role":"assistant","content":"Because.","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`)
	return func() {
		x := exchange.New(env, c)
		x.RequestHeaders(context.Background(), headers, false)
		x.RequestBody(context.Background(), body)
		x.ResponseHeaders(status, exchange.Facts{Cluster: "a/first", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream},
			false)
		x.ResponseBody(context.Background(), answer, true)
		if r := x.Close(); r.Outcome != metering.OutcomeFinished {
			b.Fatal(r.Outcome, r.Error)
		}
	}, c
}
