package vertex

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider/providertest"
)

func TestCases(t *testing.T) { providertest.Run(t, Provider()) }

func TestRecordedTraffic(t *testing.T) {
	providertest.Replay(t, Provider(), "vertex")
}

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, Provider()) }

func BenchmarkCodec(b *testing.B) { providertest.Bench(b, Provider()) }

func TestBaseURL(t *testing.T) {
	for _, c := range []struct {
		config *configv1.Provider
		want   string // empty: an error
	}{
		{&configv1.Provider{Region: "us-east5", Project: "acme"},
			"https://us-east5-aiplatform.googleapis.com/v1/projects/acme/locations/us-east5"},
		{&configv1.Provider{Region: "global", Project: "acme"},
			"https://aiplatform.googleapis.com/v1/projects/acme/locations/global"},
		{&configv1.Provider{Project: "acme"}, "https://aiplatform.googleapis.com/v1/projects/acme/locations/global"},
		{&configv1.Provider{Region: "eu", Project: "acme"},
			"https://aiplatform.eu.rep.googleapis.com/v1/projects/acme/locations/eu"},
		{&configv1.Provider{Region: "us", Project: "acme", ApiVersion: "v1beta1"},
			"https://aiplatform.us.rep.googleapis.com/v1beta1/projects/acme/locations/us"},
		{&configv1.Provider{}, "https://aiplatform.googleapis.com/v1"},
		{&configv1.Provider{Region: "us-east5"}, ""},
		{&configv1.Provider{Region: "evil.example.com/", Project: "acme"}, ""},
	} {
		got, err := Provider().BaseURL(c.config)
		require.Equal(t, c.want, got)
		require.Equal(t, c.want == "", err != nil)
	}
	e, err := Provider().Endpoint(&configv1.Provider{Endpoint: "https://proxy.example.com/v1/projects/acme/locations/x"})
	require.NoError(t, err)
	require.Equal(t, "/v1/projects/acme/locations/x", e.Path, "a configured endpoint is complete")
}

func TestFamiliesOfModels(t *testing.T) {
	for _, c := range []struct {
		model  string
		family family
		name   string
	}{
		{"gemini-2.5-flash", google, "gemini-2.5-flash"},
		{"google/gemini-2.5-flash", google, "gemini-2.5-flash"},
		{"endpoints/123", google, "endpoints/123"},
		{"text-embedding-005", google, "text-embedding-005"},
		{"claude-sonnet-4-5@20250929", anthropic, "claude-sonnet-4-5@20250929"},
		{"anthropic/claude-sonnet-4-5", anthropic, "claude-sonnet-4-5"},
		{"meta/llama-4-maverick-17b-128e-instruct-maas", openAPI, "meta/llama-4-maverick-17b-128e-instruct-maas"},
		{"deepseek-ai/deepseek-v3.1-maas", openAPI, "deepseek-ai/deepseek-v3.1-maas"},
	} {
		family, name := familyOf(c.model)
		require.Equal(t, c.family, family, c.model)
		require.Equal(t, c.name, name)
	}
}

func TestPathsOfModels(t *testing.T) {
	require.Equal(t, "/publishers/anthropic/models/claude-3-7-sonnet@20250219",
		resource("anthropic", "claude-3-7-sonnet@20250219"))
	require.Equal(t, "/publishers/google/models/a%2F%3Fb", resource("google", "a/?b"))
	require.Equal(t, "/endpoints/123%2F4", resource("google", "endpoints/123/4"))
}

func TestErrorsOfAnyDepth(t *testing.T) {
	e := decodeError(500, nil, bytes.Repeat([]byte(`{"error":[`), 4<<20))
	require.Equal(t, "The provider answered with status 500.", e.Message)
}
