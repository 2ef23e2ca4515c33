package anthropic

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
)

func client(handle http.HandlerFunc) *provider.Client {
	return &provider.Client{DecodeError: messages.DecodeError, Send: func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		handle(w, r)
		return w.Result(), nil
	}}
}

// The answers are as the documentation has them: https://platform.claude.com/docs/en/api/models/list.
func TestModelsAreListedFromAllPages(t *testing.T) {
	var asked []string
	list, err := Provider().Models(t.Context(), client(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, version, r.Header.Get("Anthropic-Version"))
		asked = append(asked, r.URL.String())
		if len(asked) == 1 {
			_, _ = fmt.Fprint(w,
				`{"data":[{"id":"claude-opus-4-6","created_at":"2026-02-04T00:00:00Z","display_name":"Claude Opus 4.6","type":"model"}],
				"first_id":"claude-opus-4-6","has_more":true,"last_id":"claude-opus-4-6"}`)
			return
		}
		_, _ = fmt.Fprint(w,
			`{"data":[{"id":"claude-haiku-4-5","created_at":"2025-10-15T00:00:00Z","type":"model"}],"has_more":false,"last_id":"claude-haiku-4-5"}`)
	}))
	require.NoError(t, err)
	require.Equal(t, []string{"/models?limit=1000", "/models?limit=1000&after_id=claude-opus-4-6"}, asked)
	require.Len(t, list, 2)
	require.Equal(t, "claude-haiku-4-5", list[0].GetId())
	require.Equal(t, int64(1770163200), list[1].GetCreated())
}
