package transport_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// TestPaddingIsAcknowledged sends more padding than the window of a stream has bytes.
func TestPaddingIsAcknowledged(t *testing.T) {
	w := serve(t)
	p := w.connect()
	p.headers(1, p.good(), false)
	said := message(strings.Repeat("x", 6000))
	go func() {
		for _, b := range said {
			if p.framer.WriteDataPadded(1, false, []byte{b}, make([]byte, 255)) != nil {
				return // what is heard tells why
			}
		}
	}()
	var heard []byte
	for len(heard) < len(said) {
		f := p.until(func(f http2.Frame) bool {
			_, ended := f.(*http2.RSTStreamFrame)
			_, data := f.(*http2.DataFrame)
			return ended || data
		})
		require.IsType(t, &http2.DataFrame{}, f, "the stream goes on")
		heard = append(heard, f.(*http2.DataFrame).Data()...)
	}
	require.Equal(t, said, heard)
}
