package bedrock

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/converse"
	"github.com/modelgate/modelgate/internal/provider/providertest"
	"github.com/modelgate/modelgate/internal/secret"
)

func BenchmarkCodec(b *testing.B) { providertest.Bench(b, Provider()) }

// BenchmarkSign measures the signature of a request of 2 KB, and of one of 1 MB, most of which is the hash of the
// body.
func BenchmarkSign(b *testing.B) {
	for name, size := range map[string]int{"2KB": 2 << 10, "1MB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			p := Provider()
			s := provider.Signing{
				Config: &configv1.Provider{Region: "us-east-1"}, Credential: secret.New(keyPair), Method: http.MethodPost,
				Endpoint: provider.Endpoint{TLS: true, Host: "bedrock-runtime.us-east-1.amazonaws.com", Port: 443},
				Now:      time.Unix(1700000000, 0),
			}
			body := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				r := provider.Request{Path: converse.OperationPath("us.amazon.nova-micro-v1:0", "converse"),
					Header: converse.Headers("application/json"), Body: body}
				require.NoError(b, p.Sign(&r, s))
			}
		})
	}
}
