package cases

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const hello = `{"model":"a/gpt-4.1","messages":[{"role":"user","content":"hi"}]}`

func keys(t *testing.T, g *Gateway) {
	missing := g.Do(t, "POST", "/v1/chat/completions", hello, "Authorization", "")
	require.Equal(t, 401, missing.Status)
	f := missing.Failure(t)
	require.Equal(t, "invalid_request_error", f.Type)
	require.Equal(t, "invalid_api_key", f.Code)
	require.Contains(t, f.Message, "Authorization header using Bearer auth")
	require.NotEmpty(t, missing.Header.Get("X-Request-Id"))

	last := g.Key[len(g.Key)-1:]
	other := map[bool]string{true: "a", false: "b"}[last != "a"]
	for name, header := range map[string]string{
		"unknown":           "Bearer sk-mg-00000000000000000000000000000000",
		"mistyped":          "Bearer " + g.Key[:len(g.Key)-1] + other,
		"another scheme":    "Basic " + g.Key,
		"no scheme":         g.Key,
		"no key":            "Bearer",
		"empty key":         "Bearer ",
		"two keys":          "Bearer " + g.Key + " " + g.Key,
		"garbage":           "\xff\x01 \"",
		"a very long key":   "Bearer " + strings.Repeat("k", 8000),
		"only the prefix":   "Bearer sk-mg-",
		"in the wrong case": "Bearer " + strings.ToUpper(g.Key),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "garbage" {
				header = "\"garbage\" \x7e" // what net/http lets through
			}
			a := g.Do(t, "POST", "/v1/chat/completions", hello, "Authorization", header)
			require.Equal(t, 401, a.Status)
			f := a.Failure(t)
			require.Equal(t, "invalid_request_error", f.Type)
			require.Equal(t, "invalid_api_key", f.Code)
			says := "API key provided is invalid"
			if !strings.HasPrefix(strings.TrimSpace(header), "Bearer ") {
				says = "You didn't provide an API key"
			}
			require.Contains(t, f.Message, says)
			require.NotContains(t, string(a.Body), g.Key[:20])
		})
	}
	for name, header := range map[string]string{"lower-case scheme": "bearer " + g.Key, "more white space": "Bearer   " +
		g.Key} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, 200, g.Do(t, "GET", "/v1/models", "", "Authorization", header).Status)
		})
	}
	require.Empty(t, g.A.Requests(), "nothing reached a provider")
}

func requests(t *testing.T, g *Gateway) {
	with := func(member string) string { return hello[:len(hello)-1] + "," + member + "}" }
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code, param              any
	}{
		{"unknown model", "POST", "/v1/chat/completions", strings.Replace(hello, "a/gpt-4.1", "gpt-9", 1), nil, 404,
			"model_not_found", nil},
		{"unknown provider", "POST", "/v1/chat/completions", strings.Replace(hello, "a/gpt-4.1", "x/gpt-9", 1), nil, 404,
			"model_not_found", nil},
		{"a name longer than any model's", "POST", "/v1/chat/completions", strings.Replace(hello, "a/gpt-4.1", "a/"+
			strings.Repeat("x", 300), 1), nil, 400, "string_above_max_length", "model"},
		{"not JSON", "POST", "/v1/chat/completions", `{"model":`, nil, 400, "invalid_json", nil},
		{"no body", "POST", "/v1/chat/completions", ``, nil, 400, "invalid_json", nil},
		{"wrong type", "POST", "/v1/chat/completions", with(`"temperature":"hot"`), nil, 400, "invalid_type", "temperature"},
		{"empty messages", "POST", "/v1/chat/completions", `{"model":"a/x","messages":[]}`, nil, 400, "empty_array",
			"messages"},
		{"max_tokens 0", "POST", "/v1/chat/completions", with(`"max_tokens":0`), nil, 400, "integer_below_min_value",
			"max_tokens"},
		{"top_logprobs 21", "POST", "/v1/chat/completions", with(`"logprobs":true,"top_logprobs":21`), nil, 400,
			"integer_above_max_value", "top_logprobs"},
		{"wrong method", "GET", "/v1/chat/completions", "", nil, 405, "method_not_supported", nil},
		{"wrong method on models", "POST", "/v1/models", hello, nil, 405, "method_not_supported", nil},
		{"unknown path", "POST", "/v1/foo", hello, nil, 404, "unknown_url", nil},
		{"path outside of /v1", "GET", "/foo", "", nil, 404, "unknown_url", nil},
		{"wrong content type", "POST", "/v1/chat/completions", hello, []string{"Content-Type", "text/plain"}, 415,
			"unsupported_content_type", nil},
		{"form", "POST", "/v1/chat/completions", hello, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415,
			"unsupported_content_type", nil},
		{"brotli", "POST", "/v1/chat/completions", hello, []string{"Content-Encoding", "br"}, 415,
			"unsupported_content_encoding", nil},
		{"gzip that is none", "POST", "/v1/chat/completions", hello, []string{"Content-Encoding", "gzip"}, 400,
			"invalid_encoding", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := g.Do(t, c.method, c.path, c.body, c.headers...)
			require.Equal(t, c.status, a.Status, "%s", a.Body)
			f := a.Failure(t)
			require.Equal(t, "invalid_request_error", f.Type)
			require.Equal(t, c.code, f.Code)
			require.Equal(t, c.param, f.Param)
			require.NotEmpty(t, a.Header.Get("X-Request-Id"))
		})
	}
	require.Empty(t, g.A.Requests(), "nothing reached a provider")

	t.Run("pitfall 76: a gzip request body is read", func(t *testing.T) {
		g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, err := w.Write([]byte(hello))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.Equal(t, 200, g.Do(t, "POST", "/v1/chat/completions", z.String(), "Content-Encoding", "gzip").Status)
		require.Empty(t, g.A.Requests()[0].Header.Get("Content-Encoding"))
	})
}

func models(t *testing.T, g *Gateway) {
	a := g.Do(t, "GET", "/v1/models", "")
	require.Equal(t, 200, a.Status)
	require.Equal(t, "application/json", a.Header.Get("Content-Type"))
	list := a.JSON(t)
	require.Equal(t, "list", list["object"])
	var ids []string
	for _, m := range list["data"].([]any) {
		model := m.(map[string]any)
		require.Equal(t, "model", model["object"])
		require.IsType(t, float64(0), model["created"])
		require.NotEmpty(t, model["owned_by"])
		ids = append(ids, model["id"].(string))
	}
	require.Subset(t, ids, []string{"a/gpt-4.1", "once", "reversed", "smart"})
	require.IsIncreasing(t, ids)

	for _, path := range []string{"/v1/models/a/gpt-4.1", "/v1/models/smart", "/v1/models/a/not-listed"} {
		one := g.Do(t, "GET", path, "")
		require.Equal(t, 200, one.Status, path)
		require.Equal(t, strings.TrimPrefix(path, "/v1/models/"), one.JSON(t)["id"])
	}
	gone := g.Do(t, "GET", "/v1/models/nothing", "")
	require.Equal(t, http.StatusNotFound, gone.Status)
	require.Equal(t, "model_not_found", gone.Failure(t).Code)
}
