package exchange_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
)

// TestStrangersGetFewAnswers holds that an address which goes on without a good key is told to stop, that others are
// not held up by it, and that a good key from the same address, such as that of a company's proxy, never is.
func TestStrangersGetFewAnswers(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1"})
	m.env.Strangers = access.NewStrangers(2, 3)
	ask := func(address, key, path string) *exchange.Immediate {
		h := exchange.Headers{{Name: ":method", Value: "POST"}, {Name: ":path", Value: path},
			{Name: "x-envoy-external-address", Value: address}, {Name: "content-type", Value: "application/json"}}
		if key != "" {
			h = append(h, exchange.Header{Name: "authorization", Value: "Bearer " + key})
		}
		return exchange.New(m.env, m.config).RequestHeaders(t.Context(), h, false).Immediate
	}
	const chat = "/v1/chat/completions"
	require.Equal(t, 401, ask("192.0.2.1", "", chat).Status)
	require.Equal(t, 401, ask("192.0.2.1", "sk-mg-wrong", chat).Status)
	require.Equal(t, 404, ask("192.0.2.1", "", "/nothing").Status)
	for _, path := range []string{chat, "/nothing"} {
		over := ask("192.0.2.1", "", path)
		require.Equal(t, 429, over.Status)
		require.Equal(t, "false", over.Header.Get("X-Should-Retry"))
		require.Equal(t, "1", over.Header.Get("Retry-After"))
		require.Contains(t, string(over.Body), `"code":"rate_limit_exceeded"`)
	}
	require.Nil(t, ask("192.0.2.1", m.secret, chat), "a good key goes on")
	require.Equal(t, 401, ask("192.0.2.2", "", chat).Status, "another address")
	require.Equal(t, 401, ask("@pipe", "", chat).Status, "no address at all")

	for i := range 3 {
		require.Equal(t, 401, ask(fmt.Sprintf("2001:db8::%x", i), "", chat).Status)
	}
	require.Equal(t, 429, ask("2001:db8::ffff", "", chat).Status, "a /64 is one address")
	require.Equal(t, 401, ask("2001:db8:0:1::", "", chat).Status, "the next one is another")

	m.now = m.now.Add(time.Second)
	require.Equal(t, 401, ask("192.0.2.1", "", chat).Status, "after a second there are answers again")
}

// TestAnswersDoNotReflectMuch holds that an answer is not long because the request was.
func TestAnswersDoNotReflectMuch(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1", Endpoints: []string{"chat/completions"}})
	long := strings.Repeat("x", 30_000)
	for _, h := range []exchange.Headers{
		{{Name: ":method", Value: "GET"}, {Name: ":path", Value: "/" + long}},
		{{Name: ":method", Value: long}, {Name: ":path", Value: "/v1/chat/completions"}},
		{{Name: ":method", Value: "GET"}, {Name: ":path", Value: "/v1/" + long}},
		{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/chat/completions"},
			{Name: "content-type", Value: long}},
		{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/chat/completions"},
			{Name: "content-encoding", Value: long}},
	} {
		reply := exchange.New(m.env, m.config).RequestHeaders(t.Context(),
			append(h, exchange.Header{Name: "authorization", Value: "Bearer " + m.secret}), false)
		require.NotNil(t, reply.Immediate)
		require.Less(t, len(reply.Immediate.Body), 1500)
		require.True(t, json.Valid(reply.Immediate.Body))
	}
}
