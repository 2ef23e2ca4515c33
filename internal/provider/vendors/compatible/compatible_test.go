package compatible

import (
	"testing"

	"github.com/modelgate/modelgate/internal/provider/providertest"
)

func TestCases(t *testing.T) { providertest.Run(t, Provider()) }

func TestRecordedTraffic(t *testing.T) {
	for _, vendor := range []string{"openai-compatible", "avian", "vercel-gateway", "alibaba", "deepseek", "huggingface",
		"moonshot", "ollama", "zai"} {
		t.Run(vendor, func(t *testing.T) { providertest.Replay(t, Provider(), vendor) })
	}
}

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, Provider()) }

func BenchmarkCodec(b *testing.B) { providertest.Bench(b, Provider()) }
