package azure

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/providertest"
	"github.com/modelgate/modelgate/internal/secret"
)

func TestCases(t *testing.T) { providertest.Run(t, Provider()) }

func TestRecordedTraffic(t *testing.T) {
	providertest.Replay(t, Provider(), "azure")
}

func TestWhereOperationsAre(t *testing.T) {
	const host = "https://r.openai.azure.com"
	for name, c := range map[string]struct{ endpoint, version, want string }{
		"v1":                {host + "/openai/v1", "", "/openai/v1/chat/completions"},
		"v1, not written":   {host, "", "/openai/v1/chat/completions"},
		"v1, half written":  {host + "/openai/", "", "/openai/v1/chat/completions"},
		"v1 with a version": {host + "/openai/v1/", "preview", "/openai/v1/chat/completions?api-version=preview"},
		"deployments":       {host, "2024-10-21", "/openai/deployments/d/chat/completions?api-version=2024-10-21"},
		"deployments, half written": {host + "/openai", "2024-10-21",
			"/openai/deployments/d/chat/completions?api-version=2024-10-21"},
		"model inference": {"https://r.services.ai.azure.com/models", "2024-05-01-preview",
			"/models/chat/completions?api-version=2024-05-01-preview"},
	} {
		t.Run(name, func(t *testing.T) {
			config := &configv1.Provider{Vendor: "azure", Endpoint: c.endpoint, ApiVersion: c.version}
			e, err := Provider().Endpoint(config)
			require.NoError(t, err)
			require.Equal(t, c.want, e.Path+locate("/chat/completions", provider.Target{Config: config, Model: "d"}))
		})
	}
}

func TestWhereSessionsAre(t *testing.T) {
	const host = "https://r.openai.azure.com"
	for _, c := range []struct{ endpoint, version, want string }{
		{host, "", "/openai/v1/realtime?model=my+rt"},
		{host + "/openai/", "", "/openai/v1/realtime?model=my+rt"},
		{host + "/openai/v1", "preview", "/openai/v1/realtime?api-version=preview&model=my+rt"},
		{host, "2025-04-01-preview", "/openai/realtime?api-version=2025-04-01-preview&deployment=my+rt"},
		{host + "/openai", "2025-04-01-preview", "/openai/realtime?api-version=2025-04-01-preview&deployment=my+rt"},
	} {
		config := &configv1.Provider{Vendor: "azure", Endpoint: c.endpoint, ApiVersion: c.version}
		e, err := Provider().Endpoint(config)
		require.NoError(t, err)
		path, err := Provider().Realtime(provider.Target{Config: config, Model: "my rt"})
		require.NoError(t, err)
		require.Equal(t, c.want, e.Path+path, c)
	}
	_, err := Provider().Realtime(provider.Target{Config: &configv1.Provider{Name: "az",
		Endpoint: "https://r.services.ai.azure.com/models"}})
	require.ErrorContains(t, err, "does not serve the Realtime API")
}

func TestAnEndpointMustBeConfigured(t *testing.T) {
	_, err := Provider().Endpoint(&configv1.Provider{Vendor: "azure"})
	require.ErrorContains(t, err, "is required")
}

func TestKeysAndTokens(t *testing.T) {
	for credential, want := range map[string]http.Header{
		"0123456789abcdef": {"Api-Key": {"0123456789abcdef"}},
		"eyJhbGciOi.x.y":   {"Authorization": {"Bearer eyJhbGciOi.x.y"}},
		"":                 {},
	} {
		r := provider.Request{Header: http.Header{}}
		require.NoError(t, Provider().Sign(&r, provider.Signing{Credential: secret.New(credential)}))
		require.Equal(t, want, r.Header)
	}
}

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, Provider()) }

func BenchmarkCodec(b *testing.B) { providertest.Bench(b, Provider()) }
