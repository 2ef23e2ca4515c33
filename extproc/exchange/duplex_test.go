package exchange_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/provider/vendors/openai"
)

const credential = "sk-of-the-provider-0123456789"

// answered returns an exchange whose request was sent to a provider, which has begun to answer with a content type,
// and the reply to that.
func answered(t testing.TB, request, contentType string) (*exchange.Exchange, exchange.Reply) {
	x := sent(t, request)
	return x, x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "200"},
		{Name: "content-type", Value: contentType}, {Name: "set-cookie", Value: "a=b"}},
		exchange.Facts{Cluster: "a/first", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream}, false)
}

// sent returns an exchange whose request was sent.
func sent(t testing.TB, request string) *exchange.Exchange {
	p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: "a", Vendor: "openai"},
		Credential: credential}, openai.Provider())
	require.NoError(t, err)
	key := auth.Generate().Reveal()
	c := &exchange.Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper"))},
		Table:     routing.Table{Providers: map[string]*routing.Provider{"a": p}},
	}
	hash := c.Hasher.Hash(key)
	c.Keyring = c.Keyring.With(map[string]*configv1.Key{"k": {Name: "k", Hash: hash[:]}})
	x := exchange.New(&exchange.Env{Now: time.Now, NewID: func() string { return "id" }}, c)
	reply := x.RequestHeaders(context.Background(), exchange.Headers{
		{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/chat/completions"},
		{Name: "authorization", Value: "Bearer " + key}, {Name: "x-request-id", Value: "r"},
	}, false)
	require.Equal(t, exchange.Duplex, reply.ResponseBody)
	require.NotNil(t, x.RequestBody(context.Background(), []byte(request)).Plan)
	return x
}

const (
	unary    = `{"model":"a/m","messages":[{"role":"user","content":"hi"}]}`
	streamed = `{"model":"a/m","messages":[{"role":"user","content":"hi"}],"stream":true}`
	role     = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	text     = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n"
	failure  = `data: {"error":{"message":"The key ` + credential +
		` is busy.","type":"server_error","param":null,"code":null}}` + "\n\n"
)

func TestHeadersWaitUntilSomethingIsSaid(t *testing.T) {
	x, reply := answered(t, streamed, "text/event-stream")
	require.Equal(t, exchange.Reply{Wait: true, Patience: 15 * time.Second}, reply)
	reply = x.ResponseBody(context.Background(), []byte(role+text[:20]), false)
	require.True(t, reply.Wait)
	require.Nil(t, reply.Head)

	reply = x.ResponseBody(context.Background(), []byte(text[20:]), false)
	require.False(t, reply.Wait)
	require.Contains(t, reply.Head.Set, exchange.Header{Name: "x-modelgate-provider", Value: "a"})
	require.Contains(t, reply.Head.Remove, "set-cookie")
	require.Equal(t, exchange.Keep, reply.Head.ResponseBody, "what has come already would be lost in another mode")
	require.Contains(t, string(reply.Body), `"role":"assistant"`)
	require.Contains(t, string(reply.Body), `"content":"x"`)
	_, waited := x.Release()
	require.False(t, waited)

	reply = x.ResponseBody(context.Background(), []byte(failure), false)
	require.Nil(t, reply.Immediate)
	require.Contains(t, string(reply.Body), "The key [redacted] is busy.")
	require.Equal(t, 200, x.Close().Status)
}

func TestAnErrorBeforeAnythingIsSaidHasAStatus(t *testing.T) {
	x, _ := answered(t, streamed, "text/event-stream")
	require.True(t, x.ResponseBody(context.Background(), []byte(role), false).Wait)
	reply := x.ResponseBody(context.Background(), []byte(failure), false)
	require.Equal(t, 500, reply.Immediate.Status)
	require.Equal(t, "a", reply.Immediate.Header.Get("X-Modelgate-Provider"))
	require.Contains(t, string(reply.Immediate.Body), "The key [redacted] is busy.")
	for _, late := range []exchange.Reply{x.ResponseBody(context.Background(), []byte(text), true),
		x.ResponseTrailers(context.Background(), nil)} {
		require.True(t, late.Wait, "what was on its way already is for nobody")
		require.Empty(t, late.Body)
	}
	_, waited := x.Release()
	require.False(t, waited)
	record := x.Close()
	require.Equal(t, metering.OutcomeFailed, record.Outcome)
	require.Equal(t, 500, record.Status)
	require.EqualValues(t, len(reply.Immediate.Body), record.Sent)
}

func TestHeadersThatHaveWaitedForLongGo(t *testing.T) {
	x, _ := answered(t, streamed, "text/event-stream")
	require.True(t, x.ResponseBody(context.Background(), []byte(role), false).Wait)
	reply, waited := x.Release()
	require.True(t, waited)
	require.NotNil(t, reply.Head)
	require.Contains(t, string(reply.Body), `"role":"assistant"`)
	reply = x.ResponseBody(context.Background(), []byte(failure), true)
	require.Nil(t, reply.Immediate)
	require.Nil(t, reply.Head)
	require.True(t, reply.End)
	require.True(t, strings.HasPrefix(string(reply.Body), `data: {"error":`), "%s", reply.Body)
}

func TestTrailersEndABody(t *testing.T) {
	x, _ := answered(t, streamed, "text/event-stream")
	x.ResponseBody(context.Background(), []byte(role+text), false)
	reply := x.ResponseTrailers(context.Background(), exchange.Headers{{Name: "x-t", Value: "1"}})
	require.Contains(t, string(reply.Body), "upstream_truncated")
	require.False(t, reply.End, "the reply to the trailers is the end")
	require.Equal(t, []string{"x-t"}, reply.Remove)

	x, _ = answered(t, streamed, "text/event-stream")
	require.Equal(t, 502, x.ResponseTrailers(context.Background(), nil).Immediate.Status)

	x, _ = answered(t, unary, "application/json")
	x.ResponseBody(context.Background(),
		[]byte(`{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`),
		false)
	reply = x.ResponseTrailers(context.Background(), nil)
	require.Contains(t, string(reply.Body), `"content":"x"`)
	require.NotNil(t, reply.Head)
}

func TestAWholeAnswerIsBounded(t *testing.T) {
	x, reply := answered(t, unary, "application/json")
	require.Equal(t, exchange.Reply{Wait: true}, reply)
	piece := bytes.Repeat([]byte(" "), 1<<20)
	for range 48 {
		require.True(t, x.ResponseBody(context.Background(), piece, false).Wait)
	}
	reply = x.ResponseBody(context.Background(), piece, false)
	require.Equal(t, 502, reply.Immediate.Status)
	require.Contains(t, string(reply.Immediate.Body), "upstream_response_too_large")
	require.True(t, x.ResponseBody(context.Background(), piece, true).Wait)
}

func TestTheRecordHasTheCodeOfEnvoysOwnAnswer(t *testing.T) {
	for details, want := range map[string]string{
		"503 upstream_reset_before_response_started{connection_termination}": "upstream_unavailable",
		"504 response_timeout":                                                   "upstream_timeout",
		"502 response_payload_too_large":                                         "upstream_response_too_large",
		"503 ext_proc_error_gRPC_error_14":                                       "gateway_unavailable",
		"503 mismatch_between_content_length_and_the_length_of_the_mutated_body": "gateway_unavailable",
	} {
		status, details, _ := strings.Cut(details, " ")
		x := sent(t, unary)
		x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: status}},
			exchange.Facts{Cluster: "a/first", Attempts: 1, CodeDetails: details}, true)
		require.Equal(t, want, string(x.Close().Error.Code), details)
	}
}

func TestEnvoysOwnAnswerPasses(t *testing.T) {
	for _, request := range []string{unary, streamed} {
		x := sent(t, request)
		reply := x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "503"}},
			exchange.Facts{Cluster: "a/first", Attempts: 2, CodeDetails: "no_healthy_upstream"}, false)
		named := exchange.Headers{{Name: "x-request-id", Value: "r"}} // the route has taken it off the request
		require.Equal(t, exchange.Reply{Set: named}, reply, "what comes already would be lost in another mode")
		reply = x.ResponseBody(context.Background(), []byte(`{"error":{}}`), true)
		require.Equal(t, exchange.Reply{Piece: true, Body: []byte(`{"error":{}}`), End: true}, reply)
		record := x.Close()
		require.Equal(t, metering.OutcomeGateway, record.Outcome)
		require.Equal(t, "upstream_unavailable", string(record.Error.Code))
	}
}

// Envoy answers by itself before it has shown the body, for example because that is too large.
func TestEnvoysAnswerToARequestWithoutABodyPasses(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "k"})
	m.env.Again = func() bool { return true }
	x := exchange.New(m.env, m.config)
	reply := x.RequestHeaders(t.Context(), exchange.Headers{
		{Name: ":method", Value: "POST"}, {Name: ":path", Value: chats},
		{Name: "authorization", Value: "Bearer " + m.secret}, {Name: "content-type", Value: "application/json"}}, false)
	require.Equal(t, exchange.Duplex, reply.ResponseBody)
	reply = x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "413"}},
		exchange.Facts{CodeDetails: "request_payload_too_large"}, false)
	require.Equal(t, exchange.Keep, reply.ResponseBody, "the mode of a Duplex body never changes")
	reply = x.ResponseBody(t.Context(), []byte("too large"), true)
	require.True(t, reply.Piece && reply.End)
	require.Equal(t, "too large", string(reply.Body))
}
