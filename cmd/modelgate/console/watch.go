package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/modelgate/modelgate/internal/timing"
)

// Watch shows something again and again until ctx ends. On a terminal it takes the place of what was shown before. An
// error is shown too: what is watched may come back.
func Watch(ctx context.Context, w io.Writer, every time.Duration, show func(io.Writer) error) error {
	var failed error
	_ = timing.Until(ctx, every, func() bool {
		screen := &screen{of: w}
		if err := show(screen); err != nil && ctx.Err() == nil {
			fmt.Fprintf(&screen.Buffer, "modelgate: %v\n", err)
		}
		if ctx.Err() != nil {
			return true
		}
		text := screen.Bytes()
		if IsTerminal(w) {
			text = append([]byte("\x1b[H\x1b[2J"), text...) // the cursor goes to the top of an empty screen
		}
		_, failed = w.Write(text)
		return failed != nil
	}) // its error says only that ctx has ended
	return failed
}

// A screen gathers what is shown at once on an output.
type screen struct {
	bytes.Buffer

	of io.Writer
}
