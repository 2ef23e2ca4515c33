package usage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/usage"
)

func TestVersion(t *testing.T) {
	price := func(input string) *configv1.Price { return &configv1.Price{Input: input, Output: "2"} }
	require.Regexp(t, "^[0-9a-f]{12}$", usage.Version(price("1")))
	require.Equal(t, usage.Version(price("1")), usage.Version(price("1")))
	require.NotEqual(t, usage.Version(price("1")), usage.Version(price("1.5")))
	require.Empty(t, usage.Version(nil))
}
