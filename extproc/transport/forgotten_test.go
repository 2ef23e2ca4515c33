package transport_test

import (
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"github.com/modelgate/modelgate/extproc/transport"
)

// TestNothingIsLeftOfStreamsThatHaveEnded has clients leave that have taken nothing of their answers, and others take
// everything. An idle connection that remembers them keeps their requests in memory: it was 300 MB after 6,000 clients
// had left, and the gateway refused all requests for want of memory until it was started again.
func TestNothingIsLeftOfStreamsThatHaveEnded(t *testing.T) {
	for name, left := range map[string]bool{"the client has left": true, "the client has taken it": false} {
		t.Run(name, func(t *testing.T) {
			const streams = 100
			w := serve(t)
			p := w.connect(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
			for i := range uint32(streams) {
				p.headers(2*i+1, p.good(), false)
				require.NoError(t, p.framer.WriteData(2*i+1, false, message(strings.Repeat("x", 100))))
			}
			p.pong()
			opened := make([]weak.Pointer[transport.Stream], streams)
			for i := range opened {
				opened[i] = weak.Make(<-w.opened)
			}
			if !left {
				require.NoError(t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000}))
				p.pong()
			}
			for i := range uint32(streams) {
				require.NoError(t, p.framer.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
			}
			p.pong()
			for range streams {
				<-w.closed
			}
			runtime.GC()
			kept := 0
			for _, s := range opened {
				if s.Value() != nil {
					kept++
				}
			}
			require.Less(t, kept, 3, "of %d streams", streams)
		})
	}
}
