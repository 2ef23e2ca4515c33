package openaicompat

import (
	"strings"

	"github.com/modelgate/modelgate/api/openai"
)

// reasons maps the finish reasons of the dialect's vendors to OpenAI's. Unknown ones are stop. An error is no
// reason for a client.
var reasons = map[string]string{
	"stop": "stop", "length": "length", "tool_calls": "tool_calls", "content_filter": "content_filter",
	"function_call": "function_call",

	"max_tokens": "length", "model_length": "length", "max_length": "length", "model_context_window_exceeded": "length",
	"repetition": "length",
	"tool_call":  "tool_calls", "tool_use": "tool_calls",
	"safety": "content_filter", "refusal": "content_filter", "sensitive": "content_filter",
	"recitation": "content_filter",
	"error":      "error", "abort": "error", "network_error": "error", "insufficient_system_resource": "error",
}

// finishReason returns OpenAI's finish reason for a vendor's, which is JSON. It is empty if there is none.
func (d *Dialect) finishReason(value []byte) string {
	if !isText(value) {
		return ""
	}
	reason := value[1 : len(value)-1]
	if mapped := d.FinishReasons[string(reason)]; mapped != "" {
		return mapped
	}
	if known := reasons[string(reason)]; known != "" {
		return known
	}
	if known := reasons[strings.ToLower(string(reason))]; known != "" {
		return known
	}
	return "stop"
}

// settle returns the finish reason of a choice that made calls, one of the older kind, or none. To clients, tool_calls
// says that there are calls to answer, and there being some says that it is tool_calls.
func settle(reason string, calls, functionCall bool) string {
	switch {
	case reason != "" && reason != "stop" && reason != "tool_calls" && reason != "function_call":
		return reason
	case calls:
		return "tool_calls"
	case functionCall:
		return "function_call"
	}
	return "stop"
}

// errFinish is for a vendor that ends an answer with the reason error and says no more. What it has of the answer is
// not given to clients, who would take it as complete.
func errFinish() *openai.Error {
	return openai.CodeUpstreamFailed.New("The provider's model failed before its answer was complete.")
}
