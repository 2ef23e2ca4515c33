package anthropic

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/providertest"
	"github.com/modelgate/modelgate/internal/secret"
)

func TestCases(t *testing.T) { providertest.Run(t, Provider()) }

func TestRecordedTraffic(t *testing.T) {
	providertest.Replay(t, Provider(), "anthropic")
}

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, Provider()) }

func BenchmarkCodec(b *testing.B) { providertest.Bench(b, Provider()) }

func TestSignReplacesWhatWasThere(t *testing.T) {
	r := provider.Request{Header: http.Header{"X-Api-Key": {"the client's"}}}
	require.NoError(t, Provider().Sign(&r, provider.Signing{Credential: secret.New("ours")}))
	require.Equal(t, []string{"ours"}, r.Header.Values("x-api-key"))
}

func TestTheDefaultEndpointIsOne(t *testing.T) {
	e, err := provider.ParseEndpoint(Provider().DefaultEndpoint)
	require.NoError(t, err)
	require.Equal(t, provider.Endpoint{TLS: true, Host: "api.anthropic.com", Port: 443, Path: "/v1"}, e)
}
