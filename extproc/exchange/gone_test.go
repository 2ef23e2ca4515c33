package exchange_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/all"
)

// A leaving codec has the client go while the first request is encoded.
type leaving struct {
	provider.ChatCodec
	leave   func()
	encoded int
}

func (l *leaving) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	l.leave()
	l.encoded++
	return l.ChatCodec.Encode(r, t)
}

func TestNoTargetIsPlannedForAClientThatHasGone(t *testing.T) {
	vendor := all.Providers()["openai"]
	ctx, leave := context.WithCancel(t.Context())
	codec := &leaving{ChatCodec: vendor.Chat, leave: leave}
	vendor.Chat = codec
	g := newGate(t, vendor, "gpt-4o")
	g.env.Random = func(uint32) uint32 { return 0 }
	g.config.Models["any"].Targets = append(g.config.Models["any"].Targets,
		&configv1.Target{Provider: "a", Model: "gpt-4o-mini"}, &configv1.Target{Provider: "a", Model: "o3"})
	x := exchange.New(g.env, g.config)
	defer x.Close()
	reply := x.RequestHeaders(ctx, exchange.Headers{
		{Name: ":method", Value: http.MethodPost}, {Name: ":path", Value: "/v1/chat/completions"},
		{Name: "authorization", Value: "Bearer " + g.key},
		{Name: "content-type", Value: "application/json"}, {Name: "x-request-id", Value: "r"},
	}, false)
	require.Nil(t, reply.Immediate)
	reply = x.RequestBody(ctx, []byte(`{"model":"any","messages":[{"role":"user","content":"hi"}]}`))
	require.Equal(t, 499, reply.Immediate.Status)
	require.Equal(t, 1, codec.encoded)
}
