package reports

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// A taker is an endpoint that takes a JSON object, with a string among its members.
type taker struct{ path, member string }

// takers returns endpoints of the chat path, which is the first, and of the job service.
func takers() []taker {
	return []taker{
		{"/v1/chat/completions", "model"}, {"/v1/embeddings", "model"}, {"/v1/batches", "endpoint"},
		{"/v1/fine_tuning/jobs", "model"},
		{"/v1/uploads", "filename"}, {"/v1/uploads/upload_x/complete", "md5"},
	}
}

// A fault is what is wrong with a request. PATH and MEMBER stand for those of the endpoint.
type fault struct {
	method, after, body string // after is what is added to the path
	headers             []string
	status              int
	code                string
}

func faults() map[string]fault {
	return map[string]fault{
		"JSON that ends":     {"POST", "", `{"a":`, nil, 400, "invalid_json"},
		"no JSON":            {"POST", "", `x=y`, nil, 400, "invalid_json"},
		"more after the end": {"POST", "", `{"a":1} {}`, nil, 400, "invalid_json"},
		"a member twice":     {"POST", "", `{"MEMBER":"x","MEMBER":"y"}`, nil, 400, "duplicate_parameter"},
		"a member of one twice": {"POST", "", `{"metadata":{"a":"x","a":"y"},"MEMBER":"x"}`, nil, 400,
			"duplicate_parameter"},
		"no UTF-8":    {"POST", "", "{\"a\":\"\xff\"}", nil, 400, "invalid_json"},
		"an array":    {"POST", "", `["MEMBER"]`, nil, 400, "invalid_type"},
		"null":        {"POST", "", `null`, nil, 400, "invalid_type"},
		"white space": {"POST", "", ` `, nil, 400, "invalid_json"},
		"a number":    {"POST", "", `{"MEMBER":7}`, nil, 400, "invalid_type"},
		"an object":   {"POST", "", `{"MEMBER":{}}`, nil, 400, "invalid_type"},
		"too deep": {"POST", "", `{"x":` + strings.Repeat("[", 129) + strings.Repeat("]", 129) +
			`,"MEMBER":"x"}`, nil, 400, "invalid_value"},
		"no body": {"POST", "", "", nil, 400, "invalid_json"},
		"a form's content type": {"POST", "", `{"MEMBER":7}`, []string{"Content-Type", "application/x-www-form-urlencoded"},
			415, "unsupported_content_type"},
		"a foreign content type": {"POST", "", `{"MEMBER":7}`, []string{"Content-Type", "text/plain; charset=utf-8"}, 415,
			"unsupported_content_type"},
		"no content type": {"POST", "", `{"MEMBER":7}`, []string{"Content-Type", ""}, 400, "invalid_type"},
		"another JSON": {"POST", "", `{"MEMBER":7}`, []string{"Content-Type", "Application/JSON; charset=utf-8"},
			400, "invalid_type"},
		"a foreign encoding": {"POST", "", `{"MEMBER":7}`, []string{"Content-Encoding", "br"}, 415,
			"unsupported_content_encoding"},
		"a trailing slash": {"POST", "/", `{"MEMBER":"x"}`, nil, 404, "unknown_url"},
		"a wrong method":   {"PATCH", "", `{"MEMBER":"x"}`, nil, 405, "method_not_supported"},
		"a path below":     {"POST", "/a/b/c", `{"MEMBER":"x"}`, nil, 404, "unknown_url"},
	}
}

// ask sends a faulty request to an endpoint, and returns what it says, in which the endpoint's own names are PATH and
// MEMBER.
func (f fault) ask(t *testing.T, g *cases.Gateway, to taker) cases.Failure {
	t.Helper()
	a := g.Do(t, f.method, to.path+f.after, strings.ReplaceAll(f.body, "MEMBER", to.member), f.headers...)
	require.Equal(t, f.status, a.Status, "%s", a.Body)
	e := a.Failure(t)
	require.Equal(t, f.code, e.Code, "%s", a.Body)
	return neutral(e, to)
}

func neutral(e cases.Failure, to taker) cases.Failure {
	e.Message = strings.ReplaceAll(strings.ReplaceAll(e.Message, to.path, "PATH"), "'"+to.member+"'", "'MEMBER'")
	if e.Param == to.member {
		e.Param = "MEMBER"
	}
	return e
}

// TestTheJobServiceAgreesWithTheChatPath is report 7: the same fault has the same status, type, code, parameter and
// message wherever it is sent.
func TestTheJobServiceAgreesWithTheChatPath(t *testing.T) {
	g := harness.Run(t, t.TempDir())
	g.Apply(t, &configv1.Organization{Name: "busy", Quotas: &configv1.Quotas{WritesPerMinute: 10_000}})
	_, key := g.CreateKey(t, "busy", "")
	as := g.As(key).Gateway
	all := takers()
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			want := f.ask(t, as, all[0])
			for _, to := range all[1:] {
				t.Run(to.path, func(t *testing.T) {
					got := f.ask(t, as, to)
					for _, own := range []string{" with '", ", or with gzip", "Perhaps you meant"} { // what is needed or taken there
						want.Message, _, _ = strings.Cut(strings.TrimSuffix(want.Message, "."), own)
						got.Message, _, _ = strings.Cut(strings.TrimSuffix(got.Message, "."), own)
					}
					require.Equal(t, want, got)
				})
			}
		})
	}
	t.Run("forms", func(t *testing.T) { formsAgree(t, as) })
	t.Run("lists", func(t *testing.T) { listsAgree(t, as) })
}

// formsAgree sends the same faults to endpoints that take forms.
func formsAgree(t *testing.T, g *cases.Gateway) {
	const content = "multipart/form-data; boundary=b"
	field := "--b\r\nContent-Disposition: form-data; name=\"MEMBER\"\r\n\r\nuser_data\r\n"
	takers := []taker{{"/v1/audio/transcriptions", "model"}, {"/v1/files", "purpose"}}
	for name, f := range map[string]fault{
		"no boundary": {"POST", "", field, []string{"Content-Type", "multipart/form-data"}, 400, "invalid_form"},
		"cut short":   {"POST", "", field, []string{"Content-Type", content}, 400, "invalid_form"},
		"another boundary": {"POST", "", field + "--b--\r\n",
			[]string{"Content-Type", "multipart/form-data; boundary=c"}, 400, "invalid_form"},
		"a field twice": {"POST", "", field + field + "--b--\r\n", []string{"Content-Type", content}, 400,
			"duplicate_parameter"},
		"a foreign content type": {"POST", "", field, []string{"Content-Type", "text/plain"}, 415,
			"unsupported_content_type"},
		"a trailing slash": {"POST", "/", field, []string{"Content-Type", content}, 404, "unknown_url"},
	} {
		t.Run(name, func(t *testing.T) {
			want, got := f.ask(t, g, takers[0]), f.ask(t, g, takers[1])
			if f.status == 400 || f.status == 415 { // one says more than the other of what it reads
				want.Message, got.Message = "", ""
			}
			require.Equal(t, want, got)
		})
	}
}

// listsAgree sends the same faults to what is only read.
func listsAgree(t *testing.T, g *cases.Gateway) {
	lists := []taker{{"/v1/models", ""}, {"/v1/batches", ""}, {"/v1/files", ""}, {"/v1/fine_tuning/jobs", ""}}
	for _, to := range lists {
		a := g.Do(t, http.MethodGet, to.path+"/", "")
		require.Equal(t, []any{404, "unknown_url"}, []any{a.Status, a.Failure(t).Code}, to.path)
		require.Equal(t, fmt.Sprintf("Invalid URL (GET %s/)", to.path), a.Failure(t).Message)
		a = g.Do(t, http.MethodPut, to.path, "{}")
		require.Equal(t, 405, a.Status, to.path)
		allowed := strings.Split(a.Header.Get("Allow"), ", ")
		require.True(t, slices.Contains(allowed, "GET") && slices.Contains(allowed, "HEAD"), allowed)
		require.Equal(t, fmt.Sprintf("Not allowed to PUT on %s (HINT: Perhaps you meant to use %s?)", to.path, allowed[0]),
			a.Failure(t).Message)
	}
}
