package responses

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

// A response that has failed has the error's code: agents tell by it whether to shorten, wait, pay or repeat.
func TestAFailedResponseHasTheCodeOfItsError(t *testing.T) {
	for name, c := range map[string]struct {
		failure openai.Error
		code    string
	}{
		"a limit":           {openai.Error{Status: 429, Code: openai.CodeRateLimitExceeded}, "rate_limit_exceeded"},
		"an empty account":  {openai.Error{Status: 429, Code: openai.CodeInsufficientQuota}, "insufficient_quota"},
		"too long":          {openai.Error{Status: 400, Code: openai.CodeContextLengthExceeded}, "context_length_exceeded"},
		"an overload":       {openai.Error{Status: 503, Code: openai.CodeOverloaded}, "server_is_overloaded"},
		"the vendor's own":  {openai.Error{Status: 502, Code: "malformed_function_call"}, "malformed_function_call"},
		"a client's, plain": {openai.Error{Status: 400, Type: openai.TypeInvalidRequest}, "invalid_prompt"},
		"the server's":      {openai.Error{Status: 500, Type: openai.TypeServer}, "server_error"},
	} {
		t.Run(name, func(t *testing.T) {
			c.failure.Message = "m"
			r := newResponse(chat.Asked{Model: "m"})
			object := r.appendJSON(nil, "failed", &c.failure)
			require.Equal(t, c.code, gjson.GetBytes(object, "error.code").Str, "%s", object)
			require.Equal(t, "m", gjson.GetBytes(object, "error.message").Str, "%s", object)
			require.Len(t, gjson.GetBytes(object, "error").Map(), 2)
		})
	}
}
