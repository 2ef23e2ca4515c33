package provider

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// ErrTruncated is the error of Stream.Close if the body ended without the vendor's end mark. The gateway never
// completes such an answer.
var ErrTruncated = errors.New("the provider's stream ended before it was complete")

// ErrNotAnAnswer is the error of Answer.Decode for a body that cannot be read.
var ErrNotAnAnswer = errors.New("the provider's answer could not be read")

// Lenient reads what vendors send, which need not be as strict as what clients send.
var Lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// StatusError returns the client's error for a vendor's status, if the vendor's body has only a message. It makes the
// distinctions that matter to clients. Errors of the client stay the client's. Errors about the gateway's credential
// are hidden. Overload and rate limits have different codes.
func StatusError(status int, header http.Header, message string) *openai.Error {
	words := Said(status, message)
	switch words {
	case openai.CodeContextLengthExceeded, openai.CodeContentFilter:
		status = http.StatusBadRequest
	case openai.CodeInsufficientQuota:
		status = http.StatusPaymentRequired
	case openai.CodeOverloaded:
		status = http.StatusServiceUnavailable
	}
	e := &openai.Error{Status: status, Message: WithoutKeys(message), Type: openai.TypeServer,
		RetryAfter: RetryAfter(header)}
	switch {
	case words == openai.CodeContextLengthExceeded:
		e.Type, e.Param, e.Code = openai.TypeInvalidRequest, "messages", words
	case words == openai.CodeContentFilter:
		e.Type, e.Code = openai.TypeInvalidRequest, words
	case status == http.StatusUnauthorized:
		// The client's key was valid: the provider has refused the gateway's credential.
		e.Status, e.Code, e.Message = http.StatusBadGateway, openai.CodeUpstreamAuthFailed,
			"The provider refused the gateway's credential."
	case status == http.StatusPaymentRequired:
		e.Status, e.Type, e.Code, e.NoRetry = http.StatusTooManyRequests, openai.TypeInsufficientQuota,
			openai.CodeInsufficientQuota, true
	case status == http.StatusTooManyRequests:
		e.Type, e.Code = openai.TypeRequests, openai.CodeRateLimitExceeded
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout, status == 499:
		e.Status, e.Code = http.StatusGatewayTimeout, openai.CodeUpstreamTimeout
	case status == http.StatusServiceUnavailable, status == 529, status == 498:
		e.Status, e.Code = http.StatusServiceUnavailable, openai.CodeOverloaded
	case status == http.StatusNotFound:
		e.Type, e.Code = openai.TypeInvalidRequest, openai.CodeModelNotFound
	case status == http.StatusUnprocessableEntity:
		e.Status, e.Type = http.StatusBadRequest, openai.TypeInvalidRequest
	case status == http.StatusRequestEntityTooLarge:
		e.Type, e.Code = openai.TypeInvalidRequest, openai.CodeRequestTooLarge
	case status >= 400 && status < 500:
		e.Type = openai.TypeInvalidRequest
	case status > 599 || status < 400:
		e.Status = http.StatusBadGateway
	}
	return e
}

// RetryAfter returns the provider's wait from retry-after-ms, or from retry-after in seconds or as a date. It returns
// 0 if there is none.
func RetryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return lasting(ms, time.Millisecond)
	}
	s := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && seconds > 0 {
		return lasting(seconds, time.Second)
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// lasting returns n units, at most a century, because more may not fit into the type.
func lasting(n float64, unit time.Duration) time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	return time.Duration(min(n*float64(unit), float64(century)))
}

// minKey is the minimum length of a word that may be a credential, in bytes.
const minKey = 12

// WithoutKeys masks words of a vendor's message that look like a credential, because some vendors repeat it.
func WithoutKeys(message string) string {
	words := strings.Split(message, " ")
	for i, w := range words {
		bare := strings.TrimLeft(w, "\"'(`")
		if len(bare) >= minKey && (strings.HasPrefix(bare, "sk-") || i > 0 && strings.EqualFold(words[i-1], "bearer")) {
			words[i] = "[redacted]"
		}
	}
	return strings.Join(words, " ")
}
