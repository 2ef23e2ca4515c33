package exchange

import (
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
)

// refuse rejects a request without a valid key.
func (x *Exchange) refuse(h Headers, e *openai.Error, details string) Reply {
	if x.c.Key == nil && !x.c.Internal && !x.c.Env.Strangers.Allow(h.Get(envoy.HeaderAddress), x.c.Record.Start) {
		e, details = tooManyRefusals(), "mg_strangers_limited"
	}
	return x.c.Reject(e, details)
}

func tooManyRefusals() *openai.Error {
	return openai.CodeRateLimitExceeded.New("Your address has sent too many requests without a valid API key. Check your key and the URL before you send more.").After(time.Second).Final()
}
