package controlplane

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

func TestAProbeSaysWhichOperationsAServerHas(t *testing.T) {
	statuses := map[string]int{"/v1/chat/completions": 400, "/v1/completions": 422, "/v1/embeddings": 405,
		"/v1/rerank": 404, "/v1/moderations": 501, "/v1/images/generations": 500, "/v1/audio/speech": 429,
		"/v1/responses": 400, "/v1/responses/compact": 404}
	for _, named := range [][]string{nil, {"responses", "embeddings"}} {
		s, p := probing(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/models" {
				_, _ = io.WriteString(w, `{"object":"list","data":[]}`)
				return
			}
			body, _ := io.ReadAll(r.Body)
			if r.Method != http.MethodPost || string(body) != "{}" || r.Header.Get("Authorization") == "" {
				t.Errorf("%s %s: %s", r.Method, r.URL, body)
			}
			w.WriteHeader(statuses[r.URL.Path])
		})
		p.Vendor, p.Operations = "compatible", named
		found, err := s.TestProvider(t.Context(), p)
		require.NoError(t, err)
		require.True(t, found.OK, found.Message)
		require.Equal(t, 200, found.Status)
		got := map[string]adminapi.OperationState{}
		for _, o := range found.Operations {
			got[o.Name] = o.State
			require.Equal(t, statuses["/v1/"+o.Name], o.Status)
		}
		require.Equal(t, map[string]adminapi.OperationState{"chat/completions": "answers", "completions": "answers",
			"embeddings": "missing", "rerank": "missing", "moderations": "missing", "images/generations": "unknown",
			"audio/speech": "unknown", "responses": "answers", "responses/compact": "missing"}, got)
		if named == nil {
			require.Contains(t, found.Message, "It lacks embeddings, rerank, moderations.")
			require.Contains(t, found.Message, "operations does not name: responses.")
		} else {
			require.Contains(t, found.Message, "It lacks embeddings. ")
			require.Contains(t, found.Message, "operations does not name: chat/completions, completions.")
		}
	}
}

func TestVendorsWithPathsOfTheirOwnAreNotAskedForOperations(t *testing.T) {
	s, p := probing(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		_, _ = io.WriteString(w, `{"data":[],"has_more":false}`)
	})
	p.Vendor = "anthropic"
	found, err := s.TestProvider(t.Context(), p)
	require.NoError(t, err)
	require.True(t, found.OK, found.Message)
	require.Empty(t, found.Operations)
}
