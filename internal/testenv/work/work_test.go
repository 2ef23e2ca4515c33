//go:build steps

package work_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/sse"
	"github.com/modelgate/modelgate/internal/testenv/work"
)

func TestWorkIsSeenToBeInProportion(t *testing.T) {
	read := func(events int) func() {
		return func() {
			var d sse.Decoder
			for range events {
				d.Feed([]byte("data: x\n\n"))
				_, _, err := d.Next()
				require.NoError(t, err)
			}
		}
	}
	small, large, ok := work.Proportional(0, read(1000), read(4000))
	require.Positive(t, small.Steps)
	require.InEpsilon(t, 4*small.Steps, large.Steps, 0.05)
	require.True(t, ok)
	_, _, ok = work.Proportional(0, read(1000), read(16000))
	require.False(t, ok)
}
