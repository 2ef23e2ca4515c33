package converse

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/eventstream"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
)

// statuses are the statuses for the vendor's exceptions. 401 is for errors of the gateway's credential.
var statuses = map[string]int{
	"ValidationException":                 http.StatusBadRequest,
	"ResourceNotFoundException":           http.StatusNotFound,
	"ModelTimeoutException":               http.StatusRequestTimeout,
	"ThrottlingException":                 http.StatusTooManyRequests,
	"ServiceQuotaExceededException":       http.StatusTooManyRequests,
	"ModelNotReadyException":              http.StatusServiceUnavailable,
	"ServiceUnavailableException":         http.StatusServiceUnavailable,
	"InternalServerException":             http.StatusInternalServerError,
	"ModelErrorException":                 http.StatusBadGateway,
	"ModelStreamErrorException":           http.StatusBadGateway,
	"AccessDeniedException":               http.StatusUnauthorized,
	"ExpiredTokenException":               http.StatusUnauthorized,
	"ExpiredToken":                        http.StatusUnauthorized,
	"UnrecognizedClientException":         http.StatusUnauthorized,
	"InvalidSignatureException":           http.StatusUnauthorized,
	"IncompleteSignatureException":        http.StatusUnauthorized,
	"InvalidClientTokenId":                http.StatusUnauthorized,
	"MissingAuthenticationToken":          http.StatusUnauthorized,
	"MissingAuthenticationTokenException": http.StatusUnauthorized,
}

// An exception is the vendor's report of an error.
type exception struct {
	class   string // such as ThrottlingException
	message string
}

// DecodeError turns an answer with a status of 400 or more into OpenAI's error. Body may be anything.
func DecodeError(status int, header http.Header, body []byte) *openai.Error {
	x := readException(body)
	if class := className(header.Get("X-Amzn-Errortype")); class != "" {
		x.class = class
	}
	if _, known := statuses[x.class]; !known && status == http.StatusForbidden {
		x.class = "AccessDeniedException"
	}
	return x.error(status, header)
}

// FrameError returns what a frame of a stream says went wrong, or nil if it is none that does.
func FrameError(f eventstream.Frame) error {
	switch string(f.Header(":message-type")) {
	case "exception":
		x := readException(f.Payload)
		class := []byte(className(string(f.Header(":exception-type"))))
		if len(class) > 0 {
			class[0] = bytes.ToUpper(class[:1])[0] // throttlingException is the ThrottlingException of an answer's header
			x.class = string(class)
		}
		return x.error(0, nil)
	case "error":
		return exception{className(string(f.Header(":error-code"))), string(f.Header(":error-message"))}.error(0, nil)
	}
	return nil
}

// readException reads what a body says of an error. The message's name begins with either case, by who in front of the
// model sends it.
func readException(body []byte) exception {
	if !jsonwalk.Valid(body) { // which, other than gjson, bounds the depth
		return exception{}
	}
	x := exception{class: className(gjson.GetBytes(body, "__type").Str)}
	for _, name := range []string{"message", "Message", "originalMessage", "error.message"} {
		x.message = cmp.Or(x.message, gjson.GetBytes(body, name).Str)
	}
	return x
}

// className returns the class of "ValidationException:http://internal..." and
// "com.amazon.coral.validate#ValidationException".
func className(s string) string {
	if _, after, ok := strings.Cut(s, "#"); ok {
		s = after
	}
	s, _, _ = strings.Cut(s, ":")
	return s
}

// error returns OpenAI's error. status is the answer's, or 0 for an exception in a stream.
func (x exception) error(status int, header http.Header) *openai.Error {
	status = cmp.Or(statuses[x.class], status, http.StatusBadGateway)
	message := cmp.Or(strings.TrimSpace(x.message), fmt.Sprintf("The provider answered with status %d.", status))
	lower := strings.ToLower(message)
	switch {
	case status == http.StatusBadRequest && strings.Contains(lower, "model identifier is invalid"):
		status = http.StatusNotFound
	case x.class == "AccessDeniedException" && strings.Contains(lower, "access to the model"):
		// The gateway's account has not asked for the model: not a broken credential, and another model may do.
		return openai.CodePermissionDenied.New("%s", message)
	}
	e := provider.StatusError(status, header, message)
	switch {
	case status == http.StatusBadRequest && strings.Contains(lower, "support counting tokens"):
		e.Code = openai.CodeUnsupportedEndpoint
	case status == http.StatusTooManyRequests && strings.Contains(lower, "token"):
		e.Type = openai.TypeTokens
	}
	if e.RetryAfter == 0 && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		e.RetryAfter = time.Second // the vendor never says
	}
	return e
}
