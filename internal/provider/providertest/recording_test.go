package providertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/eventstream"
)

func TestLinesBecomeFrames(t *testing.T) {
	var d eventstream.Decoder
	d.Feed(chunksToFrames([]byte(`{"messageStop":{"stopReason":"end_turn"}}` + "\n" +
		`{":exception":{"throttlingException":{"message":"slow"}}}` + "\n")))
	for _, want := range []struct{ header, value, payload string }{
		{":event-type", "messageStop", `{"stopReason":"end_turn"}`},
		{":exception-type", "throttlingException", `{"message":"slow"}`},
	} {
		f, ok, err := d.Next()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want.value, string(f.Header(want.header)))
		require.Equal(t, want.payload, string(f.Payload))
	}
	require.False(t, d.Rest())
}
