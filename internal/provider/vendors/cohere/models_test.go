package cohere

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
)

// The answers are as the documentation has them: https://docs.cohere.com/reference/list-models.
func TestModelsThatChatOrEmbedAreListedFromAllPages(t *testing.T) {
	var asked []string
	c := &provider.Client{DecodeError: decodeError, Send: func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.String())
		w := httptest.NewRecorder()
		if len(asked) == 1 {
			_, _ = fmt.Fprint(w, `{"models":[
				{"name":"command-a-03-2025","endpoints":["generate","chat","summarize"],"finetuned":false,"context_length":288000},
				{"name":"rerank-v3.5","endpoints":["rerank"],"finetuned":false},
				{"name":"acme-1-ft","endpoints":["chat"],"finetuned":true}],"next_page_token":"t 2"}`)
		} else {
			_, _ = fmt.Fprint(w, `{"models":[{"name":"embed-v4.0","endpoints":["embed","classify"],"finetuned":false}]}`)
		}
		return w.Result(), nil
	}}
	list, err := Provider().Models(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []string{"/models?page_size=1000", "/models?page_size=1000&page_token=t+2"}, asked)
	require.Len(t, list, 2)
	require.Equal(t, "command-a-03-2025", list[0].GetId())
	require.Equal(t, "embed-v4.0", list[1].GetId())
}
