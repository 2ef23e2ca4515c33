package messages

import (
	"cmp"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
)

// errorTypes are the types that Anthropic documents: https://platform.claude.com/docs/en/api/errors.
var errorTypes = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusPaymentRequired:       "billing_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusGatewayTimeout:        "timeout_error",
	http.StatusServiceUnavailable:    "overloaded_error",
	529:                              "overloaded_error",
}

// errorTypesOf are the types of errors whose status is Envoy's own.
var errorTypesOf = map[openai.Code]string{
	openai.CodeUnknownURL: "not_found_error", openai.CodeRequestTooLarge: "request_too_large",
	openai.CodeOverloaded: "overloaded_error",
}

func errorType(e *openai.Error) string {
	switch typ := cmp.Or(errorTypes[e.Status], errorTypesOf[e.Code]); {
	case typ != "":
		return typ
	case e.Status >= http.StatusInternalServerError:
		return "api_error"
	}
	return "invalid_request_error"
}

// appendError appends the body of an error.
func appendError(dst []byte, e *openai.Error) []byte {
	dst = openai.AppendString(append(dst, `{"type":"error","error":{"type":`...), errorType(e))
	dst = openai.AppendString(append(dst, `,"message":`...), e.Message)
	dst = append(dst, '}')
	if e.RequestID != "" {
		dst = openai.AppendString(append(dst, `,"request_id":`...), e.RequestID)
	}
	return append(dst, '}')
}

// appendErrorEvent appends the event that ends a stream with an error.
func appendErrorEvent(dst []byte, e *openai.Error) []byte {
	return append(appendError(append(dst, "event: error\ndata: "...), e), "\n\n"...)
}
