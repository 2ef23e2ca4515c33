// Package moonshot is Moonshot AI's own API, which serves the Kimi models.
//
// What a newcomer gets wrong: a thinking Kimi refuses a conversation whose tool calls come back without their reasoning, and
// no client of OpenAI's keeps it. The ids of calls carry it; where it is missing all the same a blank takes its place.
package moonshot

import (
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
)

const name = "moonshot"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "https://api.moonshot.ai/v1",
		CredentialEnv:     "MOONSHOT_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       decodeError,
		Chat: openaicompat.New(openaicompat.Dialect{
			Vendor: name,
			Unsupported: []string{
				"seed", "logit_bias", "logprobs", "top_logprobs", "parallel_tool_calls", "modalities", "audio", "prediction",
				"service_tier", "verbosity", "web_search_options", "functions", "function_call",
			},
			Rename:     map[string]string{"max_tokens": "max_completion_tokens"},
			SystemRole: true,
			Carry:      "reasoning_content",
			Rewrite:    rewrite,
		}),
	}
}

// decodeError reads the vendor's error, whose types tell what its codes, of which there are none, do not.
func decodeError(status int, header http.Header, body []byte) *openai.Error {
	typ := gjson.GetBytes(body, "error.type").Str
	switch typ {
	case "exceeded_current_quota_error":
		status = http.StatusPaymentRequired
	case "engine_overloaded_error":
		status = http.StatusServiceUnavailable
	}
	e := openaicompat.DecodeError(status, header, body)
	switch typ {
	case "exceeded_current_quota_error":
		e.Type, e.Code = openai.TypeInsufficientQuota, "insufficient_quota"
	case "engine_overloaded_error":
		e.Type, e.Code = openai.TypeServer, "overloaded"
	case "rate_limit_reached_error":
		e.Type, e.Code = openai.TypeRequests, "rate_limit_exceeded"
	case "content_filter":
		e.Type, e.Code = openai.TypeInvalidRequest, "content_filter"
	}
	return e
}
