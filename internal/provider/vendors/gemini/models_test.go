package gemini

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/gemini"
	"github.com/modelgate/modelgate/internal/recordings"
)

func client(answer func(r *http.Request) string) *provider.Client {
	return &provider.Client{DecodeError: gemini.DecodeError, Send: func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		_, _ = fmt.Fprint(w, answer(r))
		return w.Result(), nil
	}}
}

func TestModelsThatGenerateOrEmbedAreListedFromAllPages(t *testing.T) {
	var asked []string
	list, err := Provider().Models(t.Context(), client(func(r *http.Request) string {
		asked = append(asked, r.URL.String())
		if len(asked) == 1 {
			return `{"models":[{"name":"models/gemini-2.5-pro","supportedGenerationMethods":["generateContent","countTokens"]},
				{"name":"models/imagen-4.0-generate-001","supportedGenerationMethods":["predict"]},
				{"name":"models/nothing"}],"nextPageToken":"a+b/c="}`
		}
		return `{"models":[{"name":"models/gemini-embedding-001","supportedGenerationMethods":["embedContent"]}]}`
	}))
	require.NoError(t, err)
	require.Equal(t, []string{"/models?pageSize=1000", "/models?pageSize=1000&pageToken=a%2Bb%2Fc%3D"}, asked)
	require.Len(t, list, 2)
	require.Equal(t, "gemini-2.5-pro", list[0].GetId())
	require.Equal(t, "gemini-embedding-001", list[1].GetId())
}

func TestTheRecordedListIsRead(t *testing.T) {
	body := recordings.Read(t, recordings.Of(t, "gemini"), "064-models-unary-reasoning/response.json")
	list, err := Provider().Models(t.Context(), client(func(*http.Request) string { return string(body) }))
	require.NoError(t, err)
	require.Greater(t, len(list), 20)
	for _, m := range list {
		require.NotContains(t, m.GetId(), "/")
	}
}
