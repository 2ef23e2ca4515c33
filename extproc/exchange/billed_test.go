package exchange_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/limit"
)

// A billing is an answer with status 200 that a client cannot use as it should, and what it is charged: the vendor
// bills it.
type billing struct {
	name, path, body string
	run              func(x *exchange.Exchange) exchange.Reply // the last reply, which may have the error for the client

	prompt   int64 // 0: nothing is charged
	output   int64 // at least; -1: none
	exact    bool
	images   int64
	outcome  string
	mayRetry bool // nothing is told about asking again
}

const (
	drawing    = `{"model":"a/m-1","prompt":"a fox","n":2}`
	responding = `{"model":"a/m-1","input":"hi","stream":true}`
	spokenTo   = `{"model":"a/m-1","input":"hi"}`
	created    = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"model\":\"m-1\",\"usage\":null}}\n\n"
	delta      = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"so it went on, word for word\"}\n\n"
	respFailed = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"model\":\"m-1\"}}\n\n"
	partial    = "event: image_generation.partial_image\ndata: {\"type\":\"image_generation.partial_image\",\"b64_json\":\"AAAA\"}\n\n"
	anError    = "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"no\"}}\n\n"
)

func encoded(x *exchange.Exchange, contentType, encoding string, end bool) exchange.Reply {
	return x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "200"}, {Name: "content-type", Value: contentType},
		{Name: "content-encoding", Value: encoding}},
		exchange.Facts{Cluster: "a/first", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream}, end)
}

func pieces(contentType string, end bool, all ...string) func(x *exchange.Exchange) exchange.Reply {
	return func(x *exchange.Exchange) (last exchange.Reply) {
		answer(x, "200", contentType)
		for i, piece := range all {
			last = x.ResponseBody(context.Background(), []byte(piece), end && i == len(all)-1)
		}
		return last
	}
}

// billings are every way in which an answer with status 200 ends other than it should.
func billings() []billing {
	const chat, js, sse = "/v1/chat/completions", "application/json", "text/event-stream"
	long := `{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("word ", 400)
	return []billing{
		{name: "an encoding that was not asked for", path: chat, body: ask40, prompt: 8, output: -1, outcome: "failed",
			run: func(x *exchange.Exchange) exchange.Reply { return encoded(x, js, "br", false) }},
		{name: "an encoding, streamed", path: chat, body: stream40, prompt: 8, output: -1, outcome: "failed",
			run: func(x *exchange.Exchange) exchange.Reply { return encoded(x, sse, "zstd", false) }},
		{name: "no body", path: chat, body: ask40, prompt: 8, output: -1, outcome: "failed",
			run: func(x *exchange.Exchange) exchange.Reply { return encoded(x, js, "", true) }},
		{name: "no stream where one was asked for", path: chat, body: stream40, prompt: 8, output: -1, outcome: "failed",
			run: func(x *exchange.Exchange) exchange.Reply { return answer(x, "200", "text/html") }},
		{name: "not JSON", path: chat, body: ask40, prompt: 8, output: -1, outcome: "failed",
			run: pieces(js, true, "<html>")},
		{name: "JSON that is cut off", path: chat, body: ask40, prompt: 8, output: 300, outcome: "failed",
			run: pieces(js, true, long)},
		{name: "JSON of another shape, which reports", path: chat, body: ask40, prompt: 9, output: 2, exact: true,
			outcome: "failed",
			run:     pieces(js, true, `{"output":"hello","usage":{"prompt_tokens":9,"completion_tokens":2}}`)},
		{name: "JSON of another vendor", path: chat, body: ask40, prompt: 12, output: 3, exact: true, outcome: "failed",
			run: pieces(js, true,
				`{"content":[{"type":"text","text":"hello there, you"}],"usage":{"input_tokens":12,"output_tokens":3}}`)},
		{name: "no choices", path: chat, body: ask40, prompt: 8, output: -1, outcome: "failed",
			run: pieces(js, true, `{"id":"c","object":"chat.completion"}`)},
		{name: "an error of the vendor's that reports usage", path: chat, body: ask40, prompt: 9, output: 2, exact: true,
			outcome: "failed", mayRetry: true,
			run: pieces(js, true, `{"error":{"message":"no","code":500},"usage":{"prompt_tokens":9,"completion_tokens":2}}`)},
		{name: "an error of the vendor's", path: chat, body: ask40, output: -1, outcome: "failed", mayRetry: true,
			run: pieces(js, true, `{"error":{"message":"overloaded","code":503}}`)},
		{name: "too large to hold", path: chat, body: ask40, prompt: 8, output: 300, outcome: "failed",
			run: func(x *exchange.Exchange) exchange.Reply {
				answer(x, "200", js)
				x.ResponseBody(context.Background(), []byte(long+`"}}],"padding":"`), false)
				filler := bytes.Repeat([]byte(" "), 16<<20)
				for range 2 {
					x.ResponseBody(context.Background(), filler, false)
				}
				return x.ResponseBody(context.Background(), filler, false)
			}},
		{name: "a stream that fails in its first piece", path: chat, body: stream40, prompt: 8, output: 3, outcome: "failed",
			mayRetry: true,
			run:      pieces(sse, false, role+strings.Repeat(text, 20)+failure)},
		{name: "a stream that is malformed in its first piece", path: chat, body: stream40, prompt: 8, output: 3,
			outcome:  "failed",
			run:      pieces(sse, false, role+strings.Repeat(text, 20)+"data: {\"nonsense\n\n"),
			mayRetry: true /* the headers are out */},
		{name: "a stream that is malformed before it says anything", path: chat, body: stream40, prompt: 8, output: -1,
			outcome: "failed",
			run:     pieces(sse, false, role+"data: {\"nonsense\n\n")},
		{name: "a stream that ends before it says anything", path: chat, body: stream40, prompt: 8, output: -1,
			outcome: "truncated", mayRetry: true,
			run: pieces(sse, true, role)},
		{name: "a stream that begins with an error of the vendor's", path: chat, body: stream40, output: -1,
			outcome: "failed", mayRetry: true,
			run: pieces(sse, false, role+failure)},
		{name: "a held first piece that is cut", path: chat, body: stream40, prompt: 8, output: -1, mayRetry: true,
			run: pieces(sse, false, role)},
		{name: "a whole answer that is cut", path: chat, body: ask40, prompt: 8, output: 300, mayRetry: true,
			run: pieces(js, false, long)},
		{name: "a completion that is none", path: "/v1/completions", body: `{"model":"a/m-1","prompt":"hi there"}`,
			prompt: 2, output: -1, outcome: "failed", run: pieces(js, true, "[]")},
		{name: "embeddings that are none", path: "/v1/embeddings", body: `{"model":"a/m-1","input":"hi there"}`, prompt: 2,
			output: -1, outcome: "failed", run: pieces(js, true, "{}")},
		{name: "responses: fails in its first piece", path: "/v1/responses", body: responding, prompt: 1, output: 20,
			outcome: "failed", mayRetry: true,
			run: pieces(sse, true, created+strings.Repeat(delta, 8)+respFailed)},
		{name: "responses: ends in its first piece", path: "/v1/responses", body: responding, prompt: 1, output: 20,
			outcome: "truncated", mayRetry: true,
			run: pieces(sse, true, created+strings.Repeat(delta, 8))},
		{name: "responses: a document that is cut off", path: "/v1/responses", body: spokenTo, prompt: 1, output: 1,
			outcome: "truncated", mayRetry: true,
			run: pieces(js, true, `{"object":"response","output":[`)},
		{name: "responses: an encoding", path: "/v1/responses", body: spokenTo, prompt: 1, output: -1, outcome: "failed",
			run: func(x *exchange.Exchange) exchange.Reply { return encoded(x, js, "gzip", false) }},
		{name: "images: a document that is cut off", path: "/v1/images/generations", body: drawing, prompt: 10, output: -1,
			images: 2, outcome: "truncated", mayRetry: true,
			run: pieces(js, true, `{"data":[{"b64_json":"AAAA`)},
		{name: "images: cut while it comes", path: "/v1/images/generations", body: drawing, prompt: 10, output: -1,
			images: 2, mayRetry: true,
			run: pieces(js, false, `{"data":[{"b64_json":"AAAA`)},
		{name: "images: an encoding", path: "/v1/images/generations", body: drawing, prompt: 10, output: -1, images: 2,
			outcome: "failed",
			run:     func(x *exchange.Exchange) exchange.Reply { return encoded(x, js, "gzip", false) }},
		{name: "images: an error of the vendor's", path: "/v1/images/generations", body: drawing, output: -1,
			outcome: "failed", mayRetry: true,
			run: pieces(js, true, `{"error":{"message":"no"}}`)},
		{name: "images: fails in its first piece", path: "/v1/images/generations", body: drawing, prompt: 10, output: 1,
			outcome: "failed", mayRetry: true,
			run: pieces(sse, true, partial+partial+anError)},
		{name: "a Route: fails in its first piece", path: "/r/v1/messages", prompt: 250, output: 1, outcome: "failed",
			mayRetry: true,
			run:      pieces(sse, true, delta+delta+anError)},
		{name: "a Route: a document that is cut off", path: "/r/v1/messages", prompt: 250, output: -1, outcome: "truncated",
			mayRetry: true, run: pieces(js, true, `{"content":[`)},
		{name: "a Route: an encoding", path: "/r/v1/messages", prompt: 250, output: -1, mayRetry: true,
			run: func(x *exchange.Exchange) exchange.Reply { return encoded(x, js, "gzip", false) }},
		{name: "a Route: frames", path: "/r/v1/messages", prompt: 250, output: -1, mayRetry: true,
			run: func(x *exchange.Exchange) exchange.Reply {
				return answer(x, "200", "application/vnd.amazon.eventstream")
			}},
	}
}

// TestWhatAVendorBillsIsCharged holds what of an answer can be told against what was charged for it, of the limits and
// in the ledger, once.
func TestWhatAVendorBillsIsCharged(t *testing.T) {
	for _, c := range billings() {
		t.Run(c.name, func(t *testing.T) {
			key := fullKey()
			key.Limits[1].RequestsPerUnit = 100_000
			m := newMeter(t, key)
			m.config.Catalog = pricedImages()
			m.configure()
			x, reply := m.ask(c.path, c.body, exchange.Header{Name: "content-length", Value: "1000"})
			require.NotNil(t, reply.Plan, "%+v", reply.Immediate)
			last := c.run(x)
			r := x.Close()
			e := r.Entry()
			require.EqualValues(t, c.prompt, e.GetInputTokens())
			switch {
			case c.output < 0:
				require.Zero(t, e.GetOutputTokens())
			case c.exact:
				require.Equal(t, c.output, e.GetOutputTokens())
			default:
				require.GreaterOrEqual(t, e.GetOutputTokens(), c.output)
				require.LessOrEqual(t, e.GetOutputTokens(), 10*c.output+60)
			}
			require.Equal(t, c.images, e.GetImages())
			require.Len(t, m.settled, 1, "once")
			got := m.settled[0]
			require.EqualValues(t, 1, got[limit.Requests])
			require.Equal(t, e.GetInputTokens(), got[limit.InputTokens])
			require.Equal(t, e.GetOutputTokens(), got[limit.OutputTokens])
			require.Equal(t, e.GetCostNanoUsd(), got[limit.Cost])
			if c.path[1] == 'v' {
				require.Equal(t, 1000*e.GetInputTokens()+2000*e.GetOutputTokens()+10_000_000*c.images, e.GetCostNanoUsd())
			}
			if c.outcome != "" {
				require.Len(t, m.ended, 1, "once")
				require.Equal(t, c.outcome, m.ended[0].GetOutcome())
			} else {
				require.Empty(t, m.ended, "the journal writes it")
			}
			require.Equal(t, !c.mayRetry, told(last, "x-should-retry") == "false")
		})
	}
}

// told returns a header of an answer that the gateway made.
func told(r exchange.Reply, name string) string {
	if r.Immediate != nil {
		return r.Immediate.Header.Get(name)
	}
	if r.Head != nil {
		return r.Head.Set.Get(name)
	}
	return r.Set.Get(name)
}

// TestALineWhoseAnswerIsOfNoUseIsCharged: the job service asks such a line again, and what it was billed is in the
// ledger under an id of its own, so that the try which finishes is charged too.
func TestALineWhoseAnswerIsOfNoUseIsCharged(t *testing.T) {
	for name, charged := range map[string]int64{"<html>": 8, `{"error":{"message":"no","code":500}}`: 0} {
		m := newMeter(t, &configv1.Key{Name: "key_1"})
		x := exchange.NewInternal(m.env, m.config)
		x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
			{Name: ":path", Value: "/v1/chat/completions"},
			{Name: envoy.HeaderKey, Value: "key_1"}, {Name: envoy.HeaderCharge, Value: "batch_1/3"},
			{Name: "content-type", Value: "application/json"}}, false)
		require.NotNil(t, x.RequestBody(t.Context(), []byte(ask40)).Plan)
		last := pieces("application/json", true, name)(x)
		require.Empty(t, told(last, "x-should-retry"), "the job service decides itself")
		e := x.Close()
		require.Equal(t, charged, e.Entry().GetInputTokens(), name)
		require.Equal(t, "x-1", e.Entry().GetId())
	}
}

// pricedImages is a catalog in which an image of m-1 costs a cent.
func pricedImages() *catalog.Catalog {
	return catalog.New(&configv1.Catalog{Models: []*configv1.ModelFacts{{Models: []string{"m-1"},
		Price: &configv1.Price{Input: "1", Output: "2", Image: "0.01"}}}})
}
