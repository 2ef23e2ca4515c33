package openai

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Types of errors in OpenAI's API.
const (
	TypeInvalidRequest    = "invalid_request_error"
	TypeServer            = "server_error"
	TypeRequests          = "requests"
	TypeTokens            = "tokens"
	TypeInsufficientQuota = "insufficient_quota"
)

// An Error is the only type of error that clients get: a status and the body that OpenAI's clients expect. Message is
// for the author of the request: it says what to change, and has no secret. An empty Code or Param is rendered as
// null.
type Error struct {
	Status  int
	Message string
	Type    string
	Param   string
	Code    Code

	// RetryAfter, if not 0, becomes retry-after and retry-after-ms.
	RetryAfter time.Duration
	// NoRetry becomes x-should-retry: false, so that SDKs do not repeat a request that cannot succeed.
	NoRetry bool
	// Allow has the methods of a path, for a 405.
	Allow string
	// RequestID is in the body of errors in those dialects that have it there.
	RequestID string
}

// Error returns status, type and message, for logs.
func (e *Error) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Status, e.Type, e.Message)
}

// AppendJSON appends the body, {"error":{...}}, to dst. All four members are always present: OpenAI declares them
// required and nullable.
func (e *Error) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = AppendString(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = AppendString(dst, e.Type)
	dst = append(dst, `,"param":`...)
	dst = appendNullable(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendNullable(dst, string(e.Code))
	return append(dst, `}}`...)
}

// Final returns a copy that tells SDKs not to retry.
func (e *Error) Final() *Error {
	final := *e
	final.NoRetry = true
	return &final
}

// Header returns the response headers of the error, including its content type.
func (e *Error) Header() http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	if e.RetryAfter > 0 {
		seconds := (e.RetryAfter + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(e.RetryAfter.Milliseconds(), 10))
	}
	if e.NoRetry {
		h.Set("X-Should-Retry", "false")
	}
	if e.Allow != "" {
		h.Set("Allow", e.Allow)
	}
	return h
}

// WithStatus returns the error with another status. Few codes have several: the catalogue lists them.
func (e *Error) WithStatus(status int) *Error {
	e.Status = status
	return e
}

// After returns the error with a time after which a client may try again.
func (e *Error) After(wait time.Duration) *Error {
	e.RetryAfter = wait
	return e
}

// BadRequest returns a 400 without a code, about the member param of the body, a path such as messages[0].content.
func BadRequest(param, format string, args ...any) *Error {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	return &Error{Status: http.StatusBadRequest, Type: TypeInvalidRequest, Param: param, Message: format}
}

// ModelNotFound returns the 404 for a model that does not exist or that the key may not use, which look the same.
func ModelNotFound(model string) *Error {
	return CodeModelNotFound.New("The model `%s` does not exist or you do not have access to it.", model)
}

// UnknownURL returns the 404 for an unknown path.
func UnknownURL(method, path string) *Error {
	return CodeUnknownURL.New("Invalid URL (%s %s)",
		method, path)
}

// WrongMethod returns the 405 for a method that a path does not have. The most usual method comes first.
func WrongMethod(method, path string, allowed ...string) *Error {
	return &Error{Status: http.StatusMethodNotAllowed, Type: TypeInvalidRequest, Code: CodeMethodNotSupported,
		Allow:   strings.Join(allowed, ", "),
		Message: "Not allowed to " + method + " on " + path + " (HINT: Perhaps you meant to use " + allowed[0] + "?)"}
}

// UnsupportedContentType returns the 415 for a body of a type that is not accepted.
func UnsupportedContentType(got string, accepted ...string) *Error {
	return CodeUnsupportedContentType.New("Unsupported content type: '%s'. This API method only accepts '%s' requests, but you specified the header 'Content-Type: %s'.",
		got, strings.Join(accepted, "' and '"), got)
}

// UnsupportedContentEncoding returns the 415 for a body with a compression that is not accepted.
func UnsupportedContentEncoding(got, taken string) *Error {
	return CodeUnsupportedContentEncoding.New("Unsupported content encoding: '%s'. Send the body %s.",
		got, taken)
}

// NoBody returns the 400 for a request without a body, which must be a JSON object.
func NoBody(needs string) *Error {
	return CodeInvalidJSON.New("The request has no body. Send a JSON object%s.", needs)
}

// InvalidForm returns the 400 for a form that cannot be read.
func InvalidForm(why string) *Error {
	return CodeInvalidForm.New("We could not read the form of your request: %s.", why)
}

// Unsupported returns the 400 for a parameter that the named provider does not support.
func Unsupported(param, provider string) *Error {
	return CodeUnsupportedParameter.On(param,
		"Unsupported parameter: '%s' is not supported by the provider '%s'. Remove it or choose another model.", param,
		provider)
}

// BadValue returns the 400 for a value that the provider does not support.
func BadValue(param, format string, args ...any) *Error {
	return CodeUnsupportedValue.On(param, format, args...)
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // the error only reports that invalid UTF-8 was replaced
	return dst
}

func appendNullable(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return AppendString(dst, s)
}
