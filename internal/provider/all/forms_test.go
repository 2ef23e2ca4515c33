package all

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider/forms"
)

func TestTheFormsOfEveryVendorAreKnown(t *testing.T) {
	for name := range Providers() {
		require.True(t, forms.Knows(name), "internal/provider/forms lacks %s", name)
	}
}
