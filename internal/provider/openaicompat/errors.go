package openaicompat

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// A vendorError is what a vendor's body says of an error.
type vendorError struct {
	message, typ, param, code string
	number                    int // the code where it is a number, else 0
}

// readError reads the shapes in which vendors of the dialect report errors: {"error":{...}} as OpenAI does, the same in
// an array (Gemini), {"error":"..."} (xAI, Ollama), the members at the top (vLLM, Mistral), or {"detail":"..."} (FastAPI).
// A body that has none of them leaves everything empty.
func readError(body []byte) vendorError {
	var v vendorError
	if !valid(body) {
		return v
	}
	root := gjson.ParseBytes(body)
	if root.IsArray() {
		root = root.Get("0")
	}
	from := root
	switch e := root.Get("error"); {
	case e.IsObject():
		from = e
	case e.Type == gjson.String:
		v.message = e.Str
	}
	if m := from.Get("message"); m.Type == gjson.String {
		v.message = m.Str
	} else if d := from.Get("detail"); d.Type == gjson.String {
		v.message = d.Str
	}
	v.typ, v.param = stringOf(from.Get("type")), stringOf(from.Get("param"))
	switch code := from.Get("code"); code.Type {
	case gjson.String:
		v.code = code.Str
	case gjson.Number:
		v.code, v.number = code.Raw, int(code.Int())
	}
	if n, err := strconv.Atoi(v.code); err == nil {
		v.number = n
	}
	return v
}

func stringOf(r gjson.Result) string {
	if r.Type == gjson.String {
		return r.Str
	}
	return ""
}

// statusOf are the statuses of errors that are told in band, by the code or else the type that goes with them.
func statusOf(name string) int {
	switch name {
	case "invalid_api_key", "authentication_error":
		return http.StatusUnauthorized
	case "insufficient_quota", "billing_hard_limit_reached":
		return http.StatusPaymentRequired
	case "rate_limit_exceeded", "rate_limit_error", "tokens", "requests":
		return http.StatusTooManyRequests
	case "model_not_found":
		return http.StatusNotFound
	case "invalid_request_error", "context_length_exceeded", "content_filter":
		return http.StatusBadRequest
	case "overloaded", "overloaded_error", "engine_overloaded":
		return http.StatusServiceUnavailable
	case "timeout", "timeout_error":
		return http.StatusGatewayTimeout
	case "server_error", "internal_error":
		return http.StatusInternalServerError
	}
	return 0
}

// inBand turns an error that came with status 200 into the client's. Its status is the one that the vendor would have sent:
// the client of a unary answer gets it, and that of a stream, whose status has gone out, its type and code. Neither is
// retried: Envoy decides that by the status that came.
func inBand(body []byte) *openai.Error {
	v := readError(body)
	status := http.StatusBadGateway
	for _, s := range []int{v.number, statusOf(v.code), statusOf(v.typ)} {
		if s >= 400 && s <= 599 {
			status = s
			break
		}
	}
	return v.render(status, nil)
}

func decodeError(status int, header http.Header, body []byte) *openai.Error {
	return readError(bytes.TrimSpace(body)).render(status, header)
}

// render makes the client's error: as the vendor told it, but where provider.StatusError draws a line.
func (v vendorError) render(status int, header http.Header) *openai.Error {
	switch {
	case statusOf(v.code) == http.StatusUnauthorized, statusOf(v.typ) == http.StatusUnauthorized, strings.HasPrefix(v.message, "Incorrect API key"):
		status = http.StatusUnauthorized // whatever the vendor's status is: xAI says 400
	case status == http.StatusTooManyRequests && (statusOf(v.code) == http.StatusPaymentRequired || statusOf(v.typ) == http.StatusPaymentRequired):
		status = http.StatusPaymentRequired // no retry helps against an empty account
	}
	message := withoutKeys(v.message)
	if strings.TrimSpace(message) == "" {
		message = fmt.Sprintf("The provider answered with an error (status %d) and did not say more.", status)
	}
	e := provider.StatusError(status, header, message)
	if status == http.StatusUnauthorized {
		return e
	}
	e.Param = v.param
	if v.typ != "" {
		e.Type, e.Code = v.typ, codeOr(v, e.Code)
	} else if v.code != "" {
		e.Code = codeOr(v, e.Code)
	}
	return e
}

// codeOr returns the vendor's code. A number repeats the status, and says less than the code that the gateway has for it.
func codeOr(v vendorError, ours string) string {
	if v.number != 0 && ours != "" {
		return ours
	}
	return v.code
}

// withoutKeys blots out words that look like a credential, for some vendors repeat the one they were sent.
func withoutKeys(message string) string {
	words := strings.Split(message, " ")
	for i, w := range words {
		if len(w) > len("sk-")+8 && strings.HasPrefix(strings.TrimLeft(w, `"'(`+"`"), "sk-") || i > 0 && words[i-1] == "Bearer" {
			words[i] = "[redacted]"
		}
	}
	return strings.Join(words, " ")
}
