package objects

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestEachExampleIsValidAndOfItsKind(t *testing.T) {
	files, err := examples.ReadDir("examples")
	require.NoError(t, err)
	count := 0
	for _, kind := range configv1.Kinds() {
		o, ok := exampleOf(kind)
		if !ok {
			continue
		}
		count++
		require.Equal(t, kind.Name, configv1.KindOf(o).Name)
		require.Empty(t, configv1.Validate(o, nil), "%s", kind.Name)
	}
	require.Equal(t, len(files), count, "a file is named like its kind")
}
