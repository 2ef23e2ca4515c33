package batches

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/jobsvc/memory"
)

// TestALongLineHasRoomBeforeItIsRead and gives it back when the next line is read.
func TestALongLineHasRoomBeforeItIsRead(t *testing.T) {
	b, err := memory.New(1<<30, nil)
	require.NoError(t, err)
	h := b.Work("a")
	long := strings.Repeat("x", 3*longLine)
	l := newLines(strings.NewReader("short\n"+long+"\nshort\n"+long+long), roomIn(memory.With(t.Context(), h)))
	var held []int64
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NotEmpty(t, line)
		held = append(held, b.Held())
	}
	require.Equal(t, []int64{0, longCopies * maxLine, 0, longCopies * maxLine}, held)
	require.Zero(t, b.Held())

	none := newLines(strings.NewReader(long), longRoom{})
	_, err = none.next()
	require.NoError(t, err, "without a hold there are no bounds")
	refused := errors.New("refused")
	l = newLines(strings.NewReader(long), longRoom{held: func(int64) error { return refused }})
	_, err = l.next()
	require.ErrorIs(t, err, refused)
}
