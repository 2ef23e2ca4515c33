package acme

import (
	"testing"

	"github.com/modelgate/modelgate/internal/provider/providertest"
)

func TestCases(t *testing.T) { providertest.Run(t, Provider()) }

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, Provider()) }
