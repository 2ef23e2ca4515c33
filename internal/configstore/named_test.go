package configstore_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/etcdtest"
)

func TestNamedObjectsComeInTheOrderOfTheirNames(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	var asked, want []string
	for i := range 250 {
		name := fmt.Sprintf("p%d", 249-i)
		asked = append(asked, name)
		if i%2 == 0 {
			put(t, store, provider(name))
			want = append(want, name)
		}
	}
	found, err := store.Named(t.Context(), providers, asked)
	require.NoError(t, err)
	var got []string
	for _, e := range found {
		require.NoError(t, e.Err)
		got = append(got, e.Name)
	}
	require.Equal(t, want, got)
	none, err := store.Named(t.Context(), providers, nil)
	require.NoError(t, err)
	require.Empty(t, none)
}
