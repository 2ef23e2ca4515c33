package gemini

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
)

// A vendorError is what Google's APIs say of an error (google.rpc.Status).
type vendorError struct {
	code            int
	message, status string
	reason          string        // of the ErrorInfo among the details
	delay           time.Duration // of the RetryInfo among the details
	quota           string        // what the QuotaFailure among the details names
}

// statuses are the HTTP statuses that go with Google's codes, of errors that come in band.
var statuses = map[string]int{
	"INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "OUT_OF_RANGE": 400, "UNAUTHENTICATED": 401,
	"PERMISSION_DENIED": 403,
	"NOT_FOUND":         404, "ABORTED": 409, "ALREADY_EXISTS": 409, "RESOURCE_EXHAUSTED": 429, "CANCELLED": 499,
	"INTERNAL":  500,
	"DATA_LOSS": 500, "UNKNOWN": 500, "UNIMPLEMENTED": 501, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
}

// credentialReasons are the reasons of errors about the gateway's credential or account (google.api.ErrorReason),
// which the client can do nothing about. The vendor also sends them with the statuses 400 and 403.
var credentialReasons = []string{
	"API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED", "API_KEY_HTTP_REFERRER_BLOCKED", "API_KEY_IP_ADDRESS_BLOCKED",
	"API_KEY_ANDROID_APP_BLOCKED", "API_KEY_IOS_APP_BLOCKED", "CREDENTIALS_MISSING", "ACCESS_TOKEN_EXPIRED",
	"ACCESS_TOKEN_SCOPE_INSUFFICIENT", "ACCESS_TOKEN_TYPE_UNSUPPORTED", "ACCOUNT_STATE_INVALID", "CONSUMER_INVALID",
	"CONSUMER_SUSPENDED", "SERVICE_DISABLED", "BILLING_DISABLED", "USER_PROJECT_DENIED", "IAM_PERMISSION_DENIED",
}

// DecodeError turns an answer with a status of 400 or more into OpenAI's error. Body may be anything; for a stream,
// the error stands in an array.
func DecodeError(status int, header http.Header, body []byte) *openai.Error {
	var root gjson.Result
	if jsonwalk.Valid(body) { // which, other than gjson, bounds the depth
		root = gjson.ParseBytes(bytes.TrimSpace(body))
	}
	if root.IsArray() {
		root = root.Get("0")
	}
	if e := root.Get("error"); e.Exists() {
		root = e
	}
	return readError(root).decode(status, header)
}

func readError(e gjson.Result) vendorError {
	v := vendorError{code: int(e.Get("code").Int()), message: e.Get("message").Str, status: e.Get("status").Str}
	if e.Type == gjson.String {
		v.message = e.Str
	}
	e.Get("details").ForEach(func(_, d gjson.Result) bool {
		if reason := d.Get("reason").Str; reason != "" {
			v.reason = reason
		}
		delay := d.Get("retryDelay")
		if parsed, err := time.ParseDuration(delay.Str); err == nil {
			v.delay = parsed
		} else if delay.IsObject() {
			v.delay = time.Duration(delay.Get("seconds").Int())*time.Second + time.Duration(delay.Get("nanos").Int())
		}
		d.Get("violations").ForEach(func(_, violation gjson.Result) bool {
			v.quota += violation.Get("quotaMetric").Str + violation.Get("quotaId").Str
			return true
		})
		return true
	})
	return v
}

// decode returns OpenAI's error. A status of 0 means that the error says itself what happened.
func (v vendorError) decode(status int, header http.Header) *openai.Error {
	if status == 0 {
		status = v.code
	}
	if status < 400 || status > 599 {
		status = statuses[v.status]
	}
	if status == 0 {
		status = http.StatusInternalServerError
	}
	message := v.message
	if strings.TrimSpace(message) == "" {
		message = fmt.Sprintf("The provider answered with status %d.", status)
	}
	lower := strings.ToLower(message)
	if v.aboutCredential(status, lower) {
		status = http.StatusUnauthorized
	}
	e := provider.StatusError(status, header, message)
	if e.RetryAfter == 0 {
		e.RetryAfter = max(0, v.delay)
	}
	switch {
	case e.Status == http.StatusForbidden:
		e.Code = openai.CodePermissionDenied
	case status == http.StatusTooManyRequests && strings.Contains(strings.ToLower(v.quota), "token"):
		e.Type = openai.TypeTokens
	}
	return e
}

// aboutCredential reports whether an error is about what the gateway signed the request with.
func (v vendorError) aboutCredential(status int, lower string) bool {
	if status != http.StatusBadRequest && status != http.StatusForbidden {
		return false
	}
	return slices.Contains(credentialReasons, v.reason) || strings.Contains(lower, "api key") ||
		strings.Contains(lower, "unregistered callers")
}
