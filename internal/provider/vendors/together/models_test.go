package together

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
)

// The answer is as the documentation has it: https://docs.together.ai/reference/models-1.
func TestTheListOfModelsIsAnArray(t *testing.T) {
	list, err := Provider().Models(t.Context(), &provider.Client{Send: func(*http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		_, _ = fmt.Fprint(w, `[{"id":"Austism/chronos-hermes-13b","object":"model","created":1692896905,"type":"chat",
			"display_name":"Chronos Hermes (13B)","organization":"Austism","context_length":2048}]`)
		return w.Result(), nil
	}})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "Austism/chronos-hermes-13b", list[0].GetId())
	require.Equal(t, "Austism", list[0].GetOwnedBy())
	require.Equal(t, int64(1692896905), list[0].GetCreated())
}
