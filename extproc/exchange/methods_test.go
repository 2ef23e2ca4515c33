package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Whatever can be read can be asked for its headers, and every 405 says what the path has.
func TestTheMethodsOfEachPath(t *testing.T) {
	e := newTenancy(t, &configv1.Key{Name: "k"})
	e.Models["m"] = modelOf("m", func(*configv1.Model) {})
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"HEAD", "/v1/models", 200, ""},
		{"HEAD", "/v1/models/m", 200, ""},
		{"POST", "/v1/models", 405, "GET, HEAD"},
		{"PUT", "/v1/models/m", 405, "GET, HEAD, DELETE"},
		{"GET", "/v1/chat/completions", 405, "POST"},
		{"DELETE", "/v1/embeddings", 405, "POST"},
		{"POST", "/v1/organization/usage/completions", 405, "GET, HEAD"},
		{"TRACE", "/p/x", 405, "POST, GET, HEAD, PUT, PATCH, DELETE"},
	} {
		reply := New(e.env, e.Config).RequestHeaders(t.Context(), e.request(c.method, c.path, "k"), true)
		require.NotNil(t, reply.Immediate, "%s %s", c.method, c.path)
		require.Equal(t, c.status, reply.Immediate.Status, "%s %s", c.method, c.path)
		require.Equal(t, c.allow, reply.Immediate.Header.Get("Allow"), "%s %s", c.method, c.path)
	}
}

func TestAForeignSchemeIsNoKey(t *testing.T) {
	e := newTenancy(t, &configv1.Key{Name: "k"})
	for header, says := range map[string]string{
		"":                             "You didn't provide an API key.",
		"Basic dTpw":                   "You didn't provide an API key.",
		e.keys["k"]:                    "You didn't provide an API key.",
		"Bearer":                       "You didn't provide an API key.",
		"Bearer " + e.keys["k"] + " x": "The API key provided is invalid.",
		"Bearer sk-no":                 "The API key provided is invalid.",
		"Bearer " + e.keys["k"]:        "",
	} {
		h := Headers{{Name: ":method", Value: "GET"}, {Name: ":path", Value: "/v1/models"},
			{Name: "x-request-id", Value: "req"}}
		if header != "" {
			h = append(h, Header{Name: "authorization", Value: header})
		}
		answer := New(e.env, e.Config).RequestHeaders(t.Context(), h, true).Immediate
		require.Contains(t, string(answer.Body), says)
		require.Equal(t, says == "", answer.Status == 200, header)
	}
}
