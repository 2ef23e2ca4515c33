package gemini

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
	providertest.Replay(t, Provider(), "gemini")
}

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, Provider()) }

func BenchmarkCodec(b *testing.B) { providertest.Bench(b, Provider()) }

func TestSign(t *testing.T) {
	r := provider.Request{Header: http.Header{"X-Goog-Api-Key": {"the client's"}}}
	require.NoError(t, Provider().Sign(&r, provider.Signing{Credential: secret.New("ours")}))
	require.Equal(t, []string{"ours"}, r.Header.Values("x-goog-api-key"))
}
