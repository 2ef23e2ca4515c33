package echo

import (
	"testing"

	"github.com/modelgate/modelgate/internal/provider/providertest"
)

func TestCases(t *testing.T) { providertest.Run(t, Provider()) }
