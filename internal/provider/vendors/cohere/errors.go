package cohere

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
)

// A vendorError is the error in a body: {"message":...}, or {"data":...} if the request could not be processed,
// and at times error_type.
type vendorError struct{ message, typ string }

func readError(body []byte) vendorError {
	var v vendorError
	if len(body) > maxError || !jsonwalk.Valid(body) {
		return v
	}
	root := gjson.ParseBytes(body)
	for _, m := range []string{"message", "data", "error", "error.message", "detail"} {
		if r := root.Get(m); r.Type == gjson.String && r.Str != "" {
			v.message = r.Str
			break
		}
	}
	v.typ = root.Get("error_type").String()
	return v
}

// maxError bounds a body that is read as an error: what is larger is none, and deep nesting costs stack.
const maxError = 64 << 10

// decodeError turns an answer with a status of 400 or more into OpenAI's error.
func decodeError(status int, header http.Header, body []byte) *openai.Error {
	return readError(body).render(status, header)
}

// inBand turns an error that came with status 200 into OpenAI's.
func inBand(body []byte) *openai.Error {
	v := readError(body)
	status := http.StatusBadGateway
	if v.tooLong() {
		status = http.StatusBadRequest
	}
	return v.render(status, nil)
}

// failure is the error of an answer that ended because something failed, or nil.
func failure(reason, message string) error {
	status := http.StatusBadGateway
	switch reason = strings.ToUpper(reason); {
	case reason == "TIMEOUT":
		status = http.StatusGatewayTimeout
	case reason == "ERROR", reason == "USER_CANCEL", message != "":
	default:
		return nil
	}
	if message == "" {
		message = fmt.Sprintf("The provider ended its answer with %s.", reason)
	}
	return vendorError{message: message}.render(status, nil)
}

// tooLong reports whether the prompt was too long, and not the answer that was asked for.
func (v vendorError) tooLong() bool {
	return v.typ == "TOO_MANY_TOKENS" || provider.IsTooLong(http.StatusBadRequest, v.message)
}

func (v vendorError) render(status int, header http.Header) *openai.Error {
	message := v.message
	if strings.TrimSpace(message) == "" {
		message = fmt.Sprintf("The provider answered with an error (status %d) and did not say more.", status)
	}
	lower := strings.ToLower(message)
	switch {
	case status == 498: // text that is on a deny list
		e := provider.StatusError(http.StatusBadRequest, header, message)
		e.Code = openai.CodeContentFilter
		return e
	case status == http.StatusTooManyRequests && strings.Contains(lower, "/ month"):
		status = http.StatusPaymentRequired // no retry helps before the month ends
	}
	e := provider.StatusError(status, header, message)
	switch {
	case status == http.StatusBadRequest && v.tooLong():
		e.Param, e.Code = "messages", openai.CodeContextLengthExceeded
	case status == http.StatusTooManyRequests && strings.Contains(lower, "token rate limit"):
		e.Type = openai.TypeTokens
	case e.Status == http.StatusForbidden:
		e.Code = openai.CodePermissionDenied
	}
	return e
}
