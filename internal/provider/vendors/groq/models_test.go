package groq

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
)

// The answer is as the documentation has it: https://console.groq.com/docs/api-reference#models-list.
func TestModelsThatAreNotActiveAreNotListed(t *testing.T) {
	list, err := Provider().Models(t.Context(), &provider.Client{Send: func(*http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		_, _ = fmt.Fprint(w, `{"object":"list","data":[
			{"id":"llama3-groq-70b-8192-tool-use-preview","object":"model","created":1693721698,"owned_by":"Groq","active":false},
			{"id":"gemma2-9b-it","object":"model","created":1693721698,"owned_by":"Google","active":true},{"id":"new","object":"model"}]}`)
		return w.Result(), nil
	}})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "gemma2-9b-it", list[0].GetId())
	require.Equal(t, "Google", list[0].GetOwnedBy())
}
