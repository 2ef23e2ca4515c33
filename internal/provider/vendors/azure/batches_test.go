package azure

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

func batchAt(c *configv1.Provider) provider.Batch {
	return provider.Batch{
		ID: "batch_01JD3T9Q8H6R5W4Z2Y0X9V8N7M", Endpoint: "/v1/chat/completions", Count: 1, Again: true,
		Since:  1_721_409_000,
		Target: provider.Target{Config: c, Model: "my-batch-deployment"},
		Each: func(_ context.Context, take func(int, []byte) error) error {
			return take(1, []byte(`{"model":"gpt","messages":[{"role":"user","content":"Hello"}]}`))
		},
	}
}

// The answers are as the documentation has them: https://learn.microsoft.com/azure/ai-foundry/openai/how-to/batch.
func TestBatchesAreWhereTheConfiguredAPIHasThem(t *testing.T) {
	for _, test := range []struct{ endpoint, version, upload, list string }{
		{"https://r.openai.azure.com", "", "/openai/v1/files", "/openai/v1/batches?limit=100"},
		{"https://r.openai.azure.com/openai/v1/", "", "/files", "/batches?limit=100"},
		{"https://r.openai.azure.com/openai", "", "/v1/files", "/v1/batches?limit=100"},
		{"https://r.openai.azure.com", "2024-10-21", "/openai/files?api-version=2024-10-21",
			"/openai/batches?api-version=2024-10-21&limit=100"},
	} {
		config := &configv1.Provider{Name: "az", Endpoint: test.endpoint, ApiVersion: test.version}
		var asked []string
		var line, created string
		c := &provider.Client{Config: config, DecodeError: Provider().DecodeError,
			Send: func(r *http.Request) (*http.Response, error) {
				asked = append(asked, r.Method+" "+r.URL.String())
				w := httptest.NewRecorder()
				switch len(asked) {
				case 1:
					_, _ = io.WriteString(w, `{"data":[],"has_more":false}`)
				case 2:
					require.NoError(t, r.ParseMultipartForm(1<<20))
					file, err := r.MultipartForm.File["file"][0].Open()
					require.NoError(t, err)
					text, err := io.ReadAll(file)
					require.NoError(t, err)
					line = string(text)
					_, _ = io.WriteString(w, `{"id":"file-7733","object":"file","status":"processed"}`)
				default:
					text, err := io.ReadAll(r.Body)
					require.NoError(t, err)
					created = string(text)
					_, _ = io.WriteString(w,
						`{"id":"batch_fe3f047a-de39-4068-9008-346795bfc1db","status":"Validating","created_at":"2024-07-19T17:13:57.2491382+00:00"}`)
				}
				return w.Result(), nil
			}}
		id, err := Provider().Batches.Submit(t.Context(), c, batchAt(config))
		require.NoError(t, err)
		require.Equal(t, "batch_fe3f047a-de39-4068-9008-346795bfc1db", id)
		require.Equal(t, []string{"GET " + test.list, "POST " + test.upload}, asked[:2])
		require.Equal(t, `{"custom_id":"batch_01JD3T9Q8H6R5W4Z2Y0X9V8N7M-1","method":"POST","url":"/chat/completions",`+
			`"body":{"model":"my-batch-deployment","messages":[{"role":"user","content":"Hello"}]}}`+"\n", line)
		var body struct{ Endpoint string }
		require.NoError(t, json.Unmarshal([]byte(created), &body))
		require.Equal(t, "/chat/completions", body.Endpoint)
	}
}

func TestBatchesThatAzureDoesNotRunAreRefused(t *testing.T) {
	for _, b := range []provider.Batch{
		{Endpoint: "/v1/embeddings"}, {Endpoint: "/v1/completions"},
		batchAt(&configv1.Provider{Endpoint: "https://r.services.ai.azure.com/models", ApiVersion: "2024-05-01-preview"}),
	} {
		c := &provider.Client{Config: b.Target.Config}
		_, err := Provider().Batches.Submit(t.Context(), c, b)
		var refused *openai.Error
		require.ErrorAs(t, err, &refused)
		require.EqualValues(t, "unsupported_endpoint", refused.Code)
		require.Equal(t, http.StatusBadRequest, refused.Status)
	}
}
