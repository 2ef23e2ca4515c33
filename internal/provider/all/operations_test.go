package all

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/translate"
)

// asks are the requests of clients, by the operation that a vendor needs for them.
var asks = map[string][2]string{
	"chat/completions":   {"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"a"}]}`},
	"completions":        {"/v1/completions", `{"model":"m","prompt":"a"}`},
	"embeddings":         {"/v1/embeddings", `{"model":"m","input":"a"}`},
	"rerank":             {"/v1/rerank", `{"model":"m","query":"a","documents":["a"]}`},
	"moderations":        {"/v1/moderations", `{"model":"m","input":"a"}`},
	"responses":          {"/v1/responses", `{"model":"m","input":"a","store":false}`},
	"responses/compact":  {"/v1/responses/compact", `{"model":"m","input":"a"}`},
	"images/generations": {"/v1/images/generations", `{"model":"m","prompt":"a"}`},
	"audio/speech":       {"/v1/audio/speech", `{"model":"m","input":"a","voice":"a"}`},
	"messages":           {"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}]}`},
}

// path returns where a request of a client goes, or the error.
func path(t *testing.T, p provider.Provider, c *configv1.Provider, operation string) (string, error) {
	t.Helper()
	ask := asks[operation]
	o := dialects.Find(ask[0], "")
	require.NotNil(t, o)
	r, err := o.Parse(inbound.Head{ContentType: "application/json"}, []byte(ask[1]))
	require.NoError(t, err)
	v := p.For(c)
	sent, _, err := r.Encoder.Encode(&v, provider.Target{Config: c, Model: "m"})
	return sent.Path, err
}

func TestAProviderGetsOnlyTheOperationsThatItServes(t *testing.T) {
	const none = ""
	for name, tc := range map[string]struct {
		vendor string
		serves []string
		paths  map[string]string
	}{
		"compatible, by default": {"compatible", nil, map[string]string{
			"chat/completions": "/chat/completions", "responses": "/chat/completions", "messages": "/chat/completions",
			"completions": "/completions", "embeddings": "/embeddings", "rerank": "/rerank", "moderations": "/moderations",
			"images/generations": "/images/generations", "audio/speech": "/audio/speech", "responses/compact": none}},
		"with responses": {"compatible", []string{"chat/completions", "responses"}, map[string]string{
			"chat/completions": "/chat/completions", "responses": "/responses", "messages": "/chat/completions",
			"completions": "/chat/completions", "embeddings": none, "rerank": none, "moderations": none,
			"images/generations": none, "audio/speech": none, "responses/compact": none}},
		"responses alone": {"compatible", []string{"responses"}, map[string]string{
			"chat/completions": "/responses", "responses": "/responses", "messages": "/responses",
			"completions": "/responses", "embeddings": none, "responses/compact": none}},
		"compaction": {"compatible", []string{"responses", "responses/compact"}, map[string]string{
			"responses/compact": "/responses/compact"}},
		"embeddings alone": {"compatible", []string{"embeddings"}, map[string]string{
			"chat/completions": none, "responses": none, "messages": none, "completions": none,
			"embeddings": "/embeddings", "rerank": none}},
		"an older server": {"vllm", []string{"chat/completions", "embeddings"}, map[string]string{
			"responses": "/chat/completions", "completions": "/chat/completions", "embeddings": "/embeddings", "rerank": none}},
		"openai's dialect elsewhere": {"openai", []string{"chat/completions"}, map[string]string{
			"responses": "/chat/completions", "embeddings": none, "moderations": none, "responses/compact": none}},
		"claude without chat": {"anthropic", []string{}, map[string]string{
			"chat/completions": "/messages", "messages": "/messages", "responses": "/messages"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &configv1.Provider{Name: "p", Vendor: tc.vendor, Operations: tc.serves}
			for operation, want := range tc.paths {
				got, err := path(t, Providers()[tc.vendor], c, operation)
				if want != none {
					require.NoError(t, err, operation)
				} else {
					require.ErrorContains(t, err, "does not serve", operation)
				}
				require.Equal(t, want, got, operation)
			}
		})
	}
}

func TestAzuresOperationsThatPassAreWhereTheEndpointHasThem(t *testing.T) {
	for _, tc := range []struct{ endpoint, version, operation, path string }{
		{"https://a.openai.azure.com", "", "responses", "/openai/v1/responses"},
		{"https://a.openai.azure.com/openai/v1", "", "responses", "/responses"},
		{"https://a.openai.azure.com", "2025-04-01-preview", "responses", "/openai/responses?api-version=2025-04-01-preview"},
		{"https://a.openai.azure.com", "2024-10-21", "responses",
			"/openai/deployments/m/chat/completions?api-version=2024-10-21"},
		{"https://a.services.ai.azure.com/models", "", "responses", "/chat/completions"},
		{"https://a.openai.azure.com", "", "images/generations", "/openai/v1/images/generations"},
		{"https://a.openai.azure.com", "2024-10-21", "images/generations",
			"/openai/deployments/m/images/generations?api-version=2024-10-21"},
	} {
		got, err := path(t, Providers()["azure"], &configv1.Provider{Name: "p", Vendor: "azure", Endpoint: tc.endpoint,
			ApiVersion: tc.version}, tc.operation)
		require.NoError(t, err)
		require.Equal(t, tc.path, got)
	}
}

// A response that has failed is an error at each vendor whose chats may go over responses, whole and as a stream.
func TestChatsOverResponsesThatFail(t *testing.T) {
	const failed = `{"id":"resp_1","status":"failed","output":[],"error":{"code":"rate_limit_exceeded","message":"slow down"}}`
	tried := 0
	for name, p := range Providers() {
		if !p.ChatOverResponses {
			continue
		}
		tried++
		config := &configv1.Provider{Endpoint: "https://models.example/v1", Operations: []string{provider.OpResponses}}
		target := provider.Target{Model: "m", Config: translate.Complete(p, config)}
		r, err := openai.ParseChatRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
		require.NoError(t, err)
		_, answer, err := p.Chat.Encode(r, target)
		require.NoError(t, err)
		require.ErrorContains(t, answer.Decode([]byte(failed), chat.Asked{}, &chat.Answer{}), "slow down", name)
		err = answer.Stream(chat.Asked{}).Decode([]byte(`data: {"type":"response.failed","response":`+failed+"}\n\n"), &chat.Answer{})
		require.ErrorContains(t, err, "slow down", name)
	}
	require.Greater(t, tried, 2)
}
