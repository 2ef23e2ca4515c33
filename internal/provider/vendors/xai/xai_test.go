package xai

import (
	"testing"

	"github.com/modelgate/modelgate/internal/provider/providertest"
)

func TestCases(t *testing.T) { providertest.Run(t, Provider()) }

func TestRecordedTraffic(t *testing.T) {
	providertest.Replay(t, Provider(), "xai")
}

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, Provider()) }

func BenchmarkCodec(b *testing.B) { providertest.Bench(b, Provider()) }
