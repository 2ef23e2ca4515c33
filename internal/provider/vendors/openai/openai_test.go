package openai

import (
	"testing"

	"github.com/modelgate/modelgate/internal/provider/providertest"
)

func TestCases(t *testing.T) { providertest.Run(t, Provider()) }

func TestRecordedTraffic(t *testing.T) {
	for _, vendor := range []string{"openai", "openai-compatible"} {
		t.Run(vendor, func(t *testing.T) {
			providertest.Replay(t, Provider(), vendor)
		})
	}
}

func BenchmarkCodec(b *testing.B) { providertest.Bench(b, Provider()) }

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, Provider()) }
