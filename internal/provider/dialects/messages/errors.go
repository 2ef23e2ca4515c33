package messages

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
)

// A vendorError is the error in a body or an event: {"error":{"type":...,"message":...}}. Clouds and proxies in
// front of the vendor have forms of their own.
type vendorError struct {
	typ, message string
	code         int // the status, if it is reported
}

func readError(data []byte) vendorError {
	var v vendorError
	if !jsonwalk.Valid(data) { // which, other than gjson, bounds the depth
		return v
	}
	root := gjson.ParseBytes(data)
	if root.IsArray() {
		root = root.Get("0")
	}
	v.typ, v.code = root.Get("error.type").Str, int(root.Get("error.code").Int())
	for _, place := range []string{"error.message", "error", "message", "detail"} {
		if v.message = root.Get(place).Str; strings.TrimSpace(v.message) != "" {
			break
		}
	}
	return v
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
	return readError(body).decode(status, header)
}

// decode returns OpenAI's error. A status of 0 means that the type alone says what happened.
func (v vendorError) decode(status int, header http.Header) *openai.Error {
	known := typeStatus[v.typ]
	switch {
	case known != 0 && (status == 0 || v.typ == "billing_error" || v.typ == "overloaded_error"):
		status = known
	case status == 0 && v.code >= 400 && v.code <= 599:
		status = v.code
	case status == 0:
		status = http.StatusInternalServerError
	}
	message := v.message
	if strings.TrimSpace(message) == "" {
		message = fmt.Sprintf("The provider answered with status %d.", status)
	}
	lower := strings.ToLower(message)
	if v.typ == "authentication_error" {
		status = http.StatusUnauthorized
	}
	e := provider.StatusError(status, header, message)
	e.NoRetry = e.NoRetry || header.Get("X-Should-Retry") == "false"
	switch {
	case e.Status == http.StatusForbidden:
		e.Code = openai.CodePermissionDenied
	case status == http.StatusTooManyRequests && strings.Contains(lower, "token"):
		e.Type = openai.TypeTokens
	}
	return e
}
