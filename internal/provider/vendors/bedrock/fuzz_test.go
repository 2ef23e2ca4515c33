package bedrock

import (
	"testing"

	"github.com/modelgate/modelgate/internal/provider/providertest"
)

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, Provider()) }
