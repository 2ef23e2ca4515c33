package mistral

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
)

// A vendorError is the error in a body.
type vendorError struct {
	message, typ, param, code string
	status                    int // where the body names one
}

// maxError bounds a body that is read as an error: what is larger is none, and deep nesting costs stack.
const maxError = 64 << 10

// readError reads the shapes in which the vendor reports errors:
// {"object":"error","message":...,"type":...,"code":...}, where the message is a string, a list, {"detail":...}, or
// JSON within a string; {"detail":...}, a string or a list of errors by member; {"message":...} of a server in
// front of it; and OpenAI's {"error":{...}}.
func readError(body []byte) vendorError {
	var v vendorError
	if len(body) > maxError || !jsonwalk.Valid(body) {
		return v
	}
	root := gjson.ParseBytes(body)
	if e := root.Get("error"); e.IsObject() {
		root = e
	} else if e.Type == gjson.String {
		v.message = e.Str
	}
	v.typ, v.code = stringOf(root.Get("type")), stringOf(root.Get("code"))
	for _, place := range []gjson.Result{root.Get("message"), root.Get("detail"), root.Get("msg")} {
		if message, param := explain(place, true); message != "" {
			v.message, v.param = message, param
			break
		}
	}
	v.param = cmp.Or(v.param, stringOf(root.Get("param")))
	for _, place := range []string{"raw_status_code", "status_code", "code"} {
		if n := int(root.Get(place).Int()); n >= 400 && n <= 599 {
			v.status = n
			break
		}
	}
	return v
}

// stringOf returns a string or a number as text.
func stringOf(r gjson.Result) string {
	if r.Type == gjson.String || r.Type == gjson.Number {
		return r.String()
	}
	return ""
}

// explain returns what a message or detail says, and the first member that it names.
func explain(r gjson.Result, mayNest bool) (message, param string) {
	switch {
	case r.Type == gjson.String:
		if mayNest && strings.HasPrefix(r.Str, "{") && jsonwalk.Valid([]byte(r.Str)) {
			if message, param = explain(gjson.Get(r.Str, "detail"), false); message != "" {
				return message, param
			}
		}
		return r.Str, ""
	case r.IsObject() && mayNest:
		return explain(r.Get("detail"), false)
	case r.IsArray():
		var all []string
		r.ForEach(func(_, item gjson.Result) bool {
			at, said := location(item.Get("loc")), item.Get("msg").String()
			param = cmp.Or(param, at)
			if at != "" {
				said = at + ": " + said
			}
			if said != "" {
				all = append(all, said)
			}
			return len(all) < 8
		})
		return strings.Join(all, "; "), param
	}
	return "", ""
}

// location returns a path as OpenAI writes it, messages[0].name, of one as the vendor does: body, messages, 0, user,
// name. The vendor says which kind of message it took a message for, which is no member.
func location(loc gjson.Result) string {
	var b strings.Builder
	afterIndex := false
	for i, part := range loc.Array() {
		switch s := part.String(); {
		case i == 0 && s == "body":
		case part.Type == gjson.Number:
			b.WriteString("[" + s + "]")
			afterIndex = true
			continue
		case afterIndex && (s == "user" || s == "assistant" || s == "system" || s == "tool"):
		case b.Len() > 0:
			b.WriteString("." + s)
		default:
			b.WriteString(s)
		}
		afterIndex = false
	}
	return b.String()
}

// decodeError turns an answer with a status of 400 or more into OpenAI's error.
func decodeError(status int, header http.Header, body []byte) *openai.Error {
	return readError(body).render(status, header)
}

// inBand turns an error that came with status 200 into OpenAI's, with the status that its codes stand for.
func inBand(body []byte) *openai.Error {
	v := readError(body)
	status := cmp.Or(v.status, http.StatusBadGateway)
	if n, err := strconv.Atoi(v.code); v.status == 0 && (err == nil || v.typ != "") {
		switch {
		case v.limited():
			status = http.StatusTooManyRequests
		case v.tooLong(), n >= 3000 && n < 3500, strings.HasPrefix(v.typ, "invalid_"):
			status = http.StatusBadRequest
		}
	}
	return v.render(status, nil)
}

// errFailed is the error of an answer that ended because something failed.
func errFailed() *openai.Error {
	return vendorError{message: "The provider ended its answer with an error."}.render(http.StatusBadGateway, nil)
}

func (v vendorError) limited() bool {
	return v.code == "1300" || v.code == "3505" || v.typ == "rate_limited" || v.typ == "service_tier_capacity_exceeded"
}

func (v vendorError) tooLong() bool {
	return provider.IsTooLong(http.StatusBadRequest, v.message)
}

func (v vendorError) render(status int, header http.Header) *openai.Error {
	message := v.message
	if strings.TrimSpace(message) == "" {
		message = fmt.Sprintf("The provider answered with an error (status %d) and did not say more.", status)
	}
	if status == http.StatusBadRequest && (v.typ == "invalid_model" || v.code == "1500") {
		status = http.StatusNotFound
	}
	e := provider.StatusError(status, header, message)
	switch {
	case status == http.StatusUnauthorized:
		return e
	case e.Status == http.StatusBadRequest && v.tooLong():
		e.Param, e.Code = "messages", openai.CodeContextLengthExceeded
		return e
	case status == http.StatusTooManyRequests && strings.Contains(strings.ToLower(message), "token"):
		e.Type = openai.TypeTokens
	}
	e.Param = v.param
	if e.Code == "" && v.typ != e.Type {
		e.Code = openai.Code(cmp.Or(v.typ, v.code))
	}
	return e
}
