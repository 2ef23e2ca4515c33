package messages

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// lenient reads a vendor's JSON, which need not be as strict as what clients send.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// A vendorError is the error member of an error answer and of an error event.
type vendorError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// typeStatus are the statuses that the vendor documents for its types of errors. An error in band has no other.
var typeStatus = map[string]int{
	"invalid_request_error": http.StatusBadRequest,
	"authentication_error":  http.StatusUnauthorized,
	"billing_error":         http.StatusPaymentRequired,
	"permission_error":      http.StatusForbidden,
	"not_found_error":       http.StatusNotFound,
	"request_too_large":     http.StatusRequestEntityTooLarge,
	"rate_limit_error":      http.StatusTooManyRequests,
	"api_error":             http.StatusInternalServerError,
	"timeout_error":         http.StatusGatewayTimeout,
	"overloaded_error":      529,
}

// DecodeError turns an answer with a status of 400 or more into OpenAI's error. Body may be anything: proxies in front
// of the vendor answer in HTML.
func DecodeError(status int, header http.Header, body []byte) *openai.Error {
	var answer struct {
		Error vendorError `json:"error"`
	}
	if json.Unmarshal(body, &answer, lenient) != nil {
		answer.Error = vendorError{}
	}
	return answer.Error.decode(status, header)
}

// decode returns OpenAI's error. A status of 0 means that the type alone says what happened.
func (v vendorError) decode(status int, header http.Header) *openai.Error {
	if known := typeStatus[v.Type]; known != 0 && (status == 0 || v.Type == "billing_error" || v.Type == "overloaded_error") {
		status = known
	}
	if status == 0 {
		status = http.StatusInternalServerError
	}
	message := v.Message
	if strings.TrimSpace(message) == "" {
		message = fmt.Sprintf("The provider answered with status %d.", status)
	}
	lower := strings.ToLower(message)
	switch {
	case status == http.StatusForbidden, v.Type == "authentication_error", v.Type == "permission_error":
		status = http.StatusUnauthorized // what the gateway's account may not do is as little the client's business
	case status == http.StatusBadRequest && strings.Contains(lower, "credit balance is too low"):
		status = http.StatusPaymentRequired
	}
	e := provider.StatusError(status, header, message)
	e.NoRetry = e.NoRetry || header.Get("X-Should-Retry") == "false"
	switch {
	case status == http.StatusBadRequest && isContextLength(lower):
		e.Param, e.Code = "messages", "context_length_exceeded"
	case status == http.StatusTooManyRequests && strings.Contains(lower, "token"):
		e.Type = openai.TypeTokens
	}
	return e
}

func isContextLength(lower string) bool {
	return strings.Contains(lower, "prompt is too long") || strings.Contains(lower, "exceed context limit") ||
		strings.Contains(lower, "input is too long")
}
