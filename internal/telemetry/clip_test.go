package telemetry

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClip(t *testing.T) {
	short := strings.Repeat("a", MaxText)
	require.Equal(t, short, Clip(short))
	require.Equal(t, short+"…", Clip(short+"b"))
	require.Equal(t, strings.Repeat("a", MaxText-1)+"…", Clip(strings.Repeat("a", MaxText-1)+"äb"),
		"half a rune is left out")
	require.Zero(t, testing.AllocsPerRun(100, func() { Clip(short) }))
}
