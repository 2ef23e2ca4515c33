package openai

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Types of errors, as OpenAI's clients know them.
const (
	TypeInvalidRequest    = "invalid_request_error"
	TypeServer            = "server_error"
	TypeRequests          = "requests"
	TypeTokens            = "tokens"
	TypeInsufficientQuota = "insufficient_quota"
)

// An Error is the one error that crosses to the client: a status and the body OpenAI's clients expect for it. Message
// is written for the person who made the request: it says what to change, and holds no secret. An empty Code or Param
// is rendered as null.
type Error struct {
	Status  int
	Message string
	Type    string
	Param   string
	Code    string

	// RetryAfter, where it is not 0, becomes retry-after and retry-after-ms.
	RetryAfter time.Duration
	// NoRetry becomes x-should-retry: false, which keeps SDKs from repeating what cannot succeed.
	NoRetry bool
	// Allow names the methods that a path has, for a 405.
	Allow string
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
	dst = appendNullable(dst, e.Code)
	return append(dst, `}}`...)
}

// Final returns a copy that keeps SDKs from asking again.
func (e *Error) Final() *Error {
	final := *e
	final.NoRetry = true
	return &final
}

// Header returns the response headers that belong to the error, its content type included.
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

// BadRequest is a 400 about the member of the body that param names, as a path such as messages[0].content.
func BadRequest(param, code, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: TypeInvalidRequest, Param: param, Code: code,
		Message: fmt.Sprintf(format, args...)}
}

// ModelNotFound is the 404 for a model that does not exist or that the key may not use; the two look the same.
func ModelNotFound(model string) *Error {
	return &Error{Status: http.StatusNotFound, Type: TypeInvalidRequest, Code: CodeModelNotFound,
		Message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", model)}
}

// UnknownURL is the 404 for a path at which there is nothing.
func UnknownURL(method, path string) *Error {
	return &Error{Status: http.StatusNotFound, Type: TypeInvalidRequest, Code: CodeUnknownURL, Message: "Invalid URL (" +
		method + " " + path + ")"}
}

// WrongMethod is the 405 for a method that a path does not have, of which the first is what is meant most.
func WrongMethod(method, path string, allowed ...string) *Error {
	return &Error{Status: http.StatusMethodNotAllowed, Type: TypeInvalidRequest, Code: CodeMethodNotSupported,
		Allow:   strings.Join(allowed, ", "),
		Message: "Not allowed to " + method + " on " + path + " (HINT: Perhaps you meant to use " + allowed[0] + "?)"}
}

// UnsupportedContentType is the 415 for a body of another type than those that are accepted.
func UnsupportedContentType(got string, accepted ...string) *Error {
	return &Error{Status: http.StatusUnsupportedMediaType, Type: TypeInvalidRequest, Code: CodeUnsupportedContentType,
		Message: "Unsupported content type: '" + got + "'. This API method only accepts '" +
			strings.Join(accepted, "' and '") + "' requests, but you specified the header 'Content-Type: " + got + "'."}
}

// UnsupportedContentEncoding is the 415 for a body that is compressed in another way than one that is taken.
func UnsupportedContentEncoding(got, taken string) *Error {
	return &Error{Status: http.StatusUnsupportedMediaType, Type: TypeInvalidRequest, Code: CodeUnsupportedContentEncoding,
		Message: "Unsupported content encoding: '" + got + "'. Send the body " + taken + "."}
}

// NoBody is the 400 for a request without a body, which is to be a JSON object.
func NoBody(needs string) *Error {
	return BadRequest("", CodeInvalidJSON, "The request has no body. Send a JSON object%s.", needs)
}

// InvalidForm is the 400 for a form that cannot be read.
func InvalidForm(why string) *Error {
	return BadRequest("", CodeInvalidForm, "We could not read the form of your request: %s.", why)
}

// Unsupported is the 400 for a parameter that the named provider cannot honour.
func Unsupported(param, provider string) *Error {
	return BadRequest(param, CodeUnsupportedParameter,
		"Unsupported parameter: '%s' is not supported by the provider '%s'. Remove it or choose another model.", param,
		provider)
}

// BadValue is the 400 for a value that the provider has no place for.
func BadValue(param, format string, args ...any) *Error {
	return BadRequest(param, CodeUnsupportedValue, format, args...)
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
