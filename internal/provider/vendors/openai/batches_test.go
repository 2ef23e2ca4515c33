package openai

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
)

// The states and answers are as the documentation has them: https://platform.openai.com/docs/guides/batch.
func TestAnswersOfEachEndpointAreReadFromABatch(t *testing.T) {
	for _, test := range []struct{ endpoint, request, answer string }{
		{"/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":"Hi"}]}`,
			`{"id":"c","object":"chat.completion","model":"gpt-4o-mini","choices":[],"usage":{"prompt_tokens":22,"completion_tokens":2,"total_tokens":24}}`},
		{"/v1/completions", `{"model":"x","prompt":"Hi"}`,
			`{"id":"c","object":"text_completion","model":"gpt-3.5-turbo-instruct","choices":[],"usage":{"prompt_tokens":22,"completion_tokens":2,"total_tokens":24}}`},
		{"/v1/embeddings", `{"model":"x","input":"Hi"}`,
			`{"object":"list","model":"text-embedding-3-small","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":24,"total_tokens":24}}`},
	} {
		c := &provider.Client{DecodeError: Provider().DecodeError, Send: func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			if r.URL.Path == "/batches/batch_abc123" {
				_, _ = io.WriteString(w,
					`{"id":"batch_abc123","object":"batch","status":"completed","output_file_id":"file-cvaTdG","error_file_id":null,
					"request_counts":{"total":1,"completed":1,"failed":0}}`)
				return w.Result(), nil
			}
			require.Equal(t, "/files/file-cvaTdG/content", r.URL.Path)
			_, _ = io.WriteString(w,
				`{"id":"batch_req_wnaDys","custom_id":"batch_1-1","response":{"status_code":200,"request_id":"req_c187b3","body":`+
					test.answer+`},"error":null}`)
			return w.Result(), nil
		}}
		var got []provider.BatchAnswer
		b := provider.Batch{ID: "batch_1", Endpoint: test.endpoint, Target: provider.Target{Config: &configv1.Provider{},
			Model: "m"},
			Each: func(_ context.Context, take func(int, []byte) error) error { return take(1, []byte(test.request)) }}
		require.NoError(t, Provider().Batches.Results(t.Context(), c, "batch_abc123", b, func(a provider.BatchAnswer) error {
			got = append(got, a)
			return nil
		}))
		require.Len(t, got, 1)
		require.Equal(t, http.StatusOK, got[0].Status, "%s", got[0].Body)
		require.Equal(t, "x", gjson.GetBytes(got[0].Body, "model").Str)
		require.Equal(t, int64(24), got[0].Usage.TotalTokens)
	}
}
