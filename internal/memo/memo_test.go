package memo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/memo"
)

func TestAMemoIsBounded(t *testing.T) {
	m := memo.New[int, string](2)
	_, ok := m.Find(1)
	require.False(t, ok)
	require.Equal(t, "a", m.Keep(1, "a"))
	m.Keep(2, "")
	v, ok := m.Find(2)
	require.True(t, ok, "also what is zero")
	require.Empty(t, v)
	m.Keep(3, "c")
	_, ok = m.Find(1)
	require.False(t, ok, "all is forgotten at the bound")
	v, _ = m.Find(3)
	require.Equal(t, "c", v)
}
