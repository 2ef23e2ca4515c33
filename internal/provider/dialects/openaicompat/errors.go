package openaicompat

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
)

// A vendorError is the error in a vendor's body.
type vendorError struct {
	message, typ, param, code string
	number                    int  // the code where it is a number, else 0
	status                    int  // where the body says it: Groq's does, in streams
	known                     bool // the code is OpenAI's for one of the vendor's own
}

// readError reads the shapes in which vendors of the dialect report errors: {"error":{...}} as OpenAI does, the
// same in an array (Gemini), {"error":"..."} (xAI, Ollama), the members at the top (vLLM, Mistral), or
// {"detail":...} (FastAPI). For any other body everything is empty.
func (d *Dialect) readError(body []byte) vendorError {
	var v vendorError
	if !jsonwalk.Valid(body) {
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
	for _, name := range [...]string{"message", "detail", "error", "errors", "msg"} {
		if v.message == "" {
			v.message = textOfDetail(from.Get(name))
		}
	}
	// OpenRouter says "Provider returned error", and what that was beside it.
	if raw := from.Get("metadata.raw"); raw.Type == gjson.String && raw.Str != "" && len(raw.Str) < 2000 {
		v.message += ": " + raw.Str
	}
	v.typ, v.param = cmp.Or(from.Get("type").Str, root.Get("error_type").Str), from.Get("param").Str
	switch code := from.Get("code"); code.Type {
	case gjson.String:
		if !strings.Contains(code.Str, " ") { // xAI has sentences there
			v.code = code.Str
		}
	case gjson.Number:
		v.code, v.number = code.Raw, int(code.Int())
	}
	if n, err := strconv.Atoi(v.code); err == nil {
		v.number = n
	}
	for _, object := range [...]gjson.Result{from, root} {
		for _, name := range [...]string{"status_code", "http_status_code", "status"} {
			n := int(object.Get(name).Int())
			// which it says of every error in a stream
			tgis := name == "http_status_code" && n == http.StatusUnprocessableEntity
			if v.status == 0 && n >= 400 && n <= 599 && !tgis {
				v.status = n
			}
		}
	}
	if known := cmp.Or(d.Codes[v.code], d.Codes[v.typ], codes[v.code]); known != "" {
		v.code, v.number, v.known = string(known), 0, true
	}
	return v
}

// textOfDetail reads a message: a text, or FastAPI's list of errors, which Mistral also gives as an object's detail.
func textOfDetail(d gjson.Result) string {
	switch {
	case d.Type == gjson.String:
		return d.Str
	case d.IsObject():
		return textOfDetail(d.Get("detail"))
	case !d.IsArray():
		return ""
	}
	var parts []string
	for _, e := range d.Array() {
		if e.Type == gjson.String {
			parts = append(parts, e.Str)
			continue
		}
		var at []string
		for _, l := range e.Get("loc").Array() {
			at = append(at, l.String())
		}
		if text := e.Get("msg").Str + e.Get("message").Str; text != "" && len(at) > 0 {
			parts = append(parts, strings.Join(at, ".")+": "+text)
		} else if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// codes are vendors' own words for what OpenAI has a code for.
var codes = map[string]openai.Code{
	"DeploymentNotFound": openai.CodeModelNotFound, // Azure
	"RateLimitReached":   openai.CodeRateLimitExceeded,
	// Azure AI and GitHub say it of a prompt.
	"tokens_limit_reached":         openai.CodeContextLengthExceeded,
	"exceeded_current_quota_error": openai.CodeInsufficientQuota, // Moonshot's models elsewhere
}

// types are the types of OpenAI's errors. Other types say no more than the status does, in as many ways as there
// are vendors.
var types = []string{openai.TypeInvalidRequest, openai.TypeServer, openai.TypeRequests, openai.TypeTokens,
	openai.TypeInsufficientQuota}

// statuses are the statuses of errors in band, by the code or else the type.
var statuses = map[string]int{
	"invalid_api_key": 401, "authentication_error": 401, "AuthenticationError": 401, "unauthorized": 401,
	"insufficient_quota": 402, "billing_hard_limit_reached": 402, "billing_error": 402,
	"permission_error": 403, "permission_denied": 403, "PermissionDeniedError": 403,
	"model_not_found": 404, "not_found_error": 404, "NotFoundError": 404,
	"timeout": 504, "timeout_error": 504,
	"request_too_large":   413,
	"rate_limit_exceeded": 429, "rate_limit_error": 429, "rate_limit_reached_error": 429, "RateLimitError": 429,
	"tokens": 429, "requests": 429,
	"invalid_request_error": 400, "BadRequestError": 400, "bad_request_error": 400, "validation": 400,
	"validation_error":        400,
	"context_length_exceeded": 400, "content_filter": 400, "tool_use_failed": 400, "too_many_prompt_tokens": 400,
	"exceed_context_size_error": 400,
	"overloaded":                503, "overloaded_error": 503, "engine_overloaded": 503, "unavailable_error": 503,
	"service_unavailable": 503,
	"server_error":        500, "internal_error": 500, "InternalServerError": 500, "internal_server_error": 500,
	"api_error": 500,
}

// inBand turns an error that came with status 200 into the client's. Its status is the one that the vendor would
// have sent. The client of a unary answer gets it. A stream's status has gone out, so its client gets the type and
// the code. The retry policy tries again if nothing has gone out.
func (d *Dialect) inBand(body []byte) *openai.Error {
	v := d.readError(body)
	status := http.StatusBadGateway
	for _, s := range [...]int{v.status, v.number, statuses[v.code], statuses[v.typ]} {
		if s >= 400 && s <= 599 {
			status = s
			break
		}
	}
	return v.render(d, status, nil)
}

// InBand turns an error that came with status 200 into the client's.
func (d Dialect) InBand(body []byte) *openai.Error { return d.inBand(body) }

// DecodeError turns an answer with an error status into the client's error. It implements
// provider.Provider.DecodeError for a vendor without a Dialect of its own.
func DecodeError(status int, header http.Header, body []byte) *openai.Error {
	return Dialect{}.DecodeError(status, header, body)
}

// DecodeError turns an answer with an error status into the client's error. It implements
// provider.Provider.DecodeError.
func (d Dialect) DecodeError(status int, header http.Header, body []byte) *openai.Error {
	body = bytes.TrimSpace(body)
	v := d.readError(body)
	if v.message == "" && isPlain(body) {
		v.message = string(body)
	}
	return v.render(&d, status, header)
}

// isPlain reports whether a body is a few words of text: neither a page nor JSON nor what is left of it.
func isPlain(body []byte) bool {
	return len(body) <= 500 && utf8.Valid(body) && !bytes.ContainsAny(body, "<{[\"") &&
		bytes.IndexFunc(body, unicode.IsControl) < 0
}

// render makes the client's error: what the vendor says, except for what provider.StatusError decides.
func (v vendorError) render(d *Dialect, status int, header http.Header) *openai.Error {
	message := v.message
	if strings.TrimSpace(message) == "" {
		message = fmt.Sprintf("The provider answered with an error (status %d) and did not say more.", status)
	}
	e := provider.StatusError(v.meant(status), header, message)
	switch {
	case e.Code == openai.CodeUpstreamAuthFailed:
		return e
	case e.Code == openai.CodeInsufficientQuota && v.typ != openai.TypeInsufficientQuota:
		return e // the status says it, and the vendor's own words say less
	}
	e.Param = v.param
	if e.Type == openai.TypeRequests && strings.Contains(v.typ, "token") {
		e.Type = openai.TypeTokens
	}
	if v.typ != "" && (d.AsReceived || slices.Contains(types, v.typ)) {
		e.Type = v.typ
		if d.AsReceived || v.typ == openai.TypeInsufficientQuota {
			e.Code = v.codeOr(e.Code)
		}
	}
	if v.code != "" {
		e.Code = v.codeOr(e.Code)
	}
	switch words := provider.Said(status, v.message); {
	case v.isTooLong() && e.Status == http.StatusBadRequest:
		e.Code = openai.CodeContextLengthExceeded
	case words != "":
		e.Code = words
	}
	return e
}

// meant returns the error's status, if the vendor's own stands for something else.
func (v vendorError) meant(status int) int {
	byCode, byType := statuses[v.code], statuses[v.typ]
	switch {
	case byCode == http.StatusUnauthorized, byType == http.StatusUnauthorized,
		strings.HasPrefix(v.message, "Incorrect API key"):
		return http.StatusUnauthorized // xAI says 400
	case status < http.StatusInternalServerError && (byCode == http.StatusPaymentRequired ||
		byType == http.StatusPaymentRequired):
		return http.StatusPaymentRequired // no retry helps against an empty account
	case v.known && byCode != 0:
		return byCode
	}
	return status
}

// isTooLong reports whether the prompt has more tokens than the model takes: clients shorten it by OpenAI's code for
// that. Only OpenAI has a code. Some vendors say it by type, the others in words: see provider.IsTooLong.
func (v vendorError) isTooLong() bool {
	return v.typ == "too_many_prompt_tokens" || v.typ == "exceed_context_size_error" // Perplexity, llama.cpp
}

// codeOr returns the vendor's code. A number repeats the status, and says less than the code that the gateway has for
// it.
func (v vendorError) codeOr(ours openai.Code) openai.Code {
	if v.number != 0 && ours != "" {
		return ours
	}
	return openai.Code(v.code)
}
