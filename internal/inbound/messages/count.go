package messages

import (
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/provider"
)

// A count asks for the number of tokens of a request.
type count struct{ request }

func parseCount(h inbound.Head, data []byte) (inbound.Request, error) {
	head, err := readHead(data)
	if err != nil {
		return inbound.Request{}, err
	}
	return inbound.Request{Model: head.Model, Sent: openai.MembersOf(data),
		Encoder: &count{request{sent: provider.NativeRequest{Body: data, Betas: h.Betas, Count: true,
			Carrier: h.Carrier}}}}, nil
}

// Encode implements inbound.Encoder. Only vendors that speak the dialect count. For others, the request must be one
// that they would serve.
func (c *count) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	sent, answer, err := c.request.Encode(v, t)
	if err == nil && !c.isNative(v, t) {
		err = &inbound.CountHere{Vendor: v.Name, Model: t.Model}
	}
	return sent, answer, err
}

func appendCount(dst []byte, tokens int64) []byte {
	return append(strconv.AppendInt(append(dst, `{"input_tokens":`...), tokens, 10), '}')
}
