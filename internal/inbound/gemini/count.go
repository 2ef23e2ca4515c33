package gemini

import (
	"strconv"

	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/provider"
)

// A counted asks for the number of tokens of a request.
type counted struct{ request }

func parseCount(h inbound.Head, data []byte) (inbound.Request, error) {
	model, _, _ := split(h.Path)
	members, err := object(model, data)
	if err != nil {
		return inbound.Request{}, err
	}
	c := &counted{request{sent: provider.NativeRequest{Body: data, Count: true, Carrier: h.Carrier}, members: members,
		model: model}}
	if c.whole = members.Get("generateContentRequest"); c.whole == nil {
		c.whole = members.Get("generate_content_request")
	}
	return inbound.Request{Model: model, Encoder: c, Sent: members}, nil
}

// Encode implements inbound.Encoder. Only vendors that speak the dialect count. For others, the request must be one
// that they would serve.
func (c *counted) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	sent, answer, err := c.request.Encode(v, t)
	if err == nil && !c.isNative(v, t) {
		err = &inbound.CountHere{Vendor: v.Name, Model: t.Model}
	}
	return sent, answer, err
}

func appendCount(dst []byte, tokens int64) []byte {
	return append(strconv.AppendInt(append(dst, `{"totalTokens":`...), tokens, 10), '}')
}
