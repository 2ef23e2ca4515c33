package parts

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestPartsEndInReverseOrder(t *testing.T) {
	p := New(zap.NewNop())
	var order []string
	for _, name := range []string{"first", "second"} {
		p.Serve(name, func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, name)
			return ctx.Err()
		})
	}
	p.Add("third", func(context.Context) error { order = append(order, "third"); return nil })
	require.NoError(t, p.Stop(t.Context()))
	require.Equal(t, []string{"third", "second", "first"}, order)
	require.NoError(t, p.Stop(t.Context()), "stopping twice is harmless")
}

func TestAPartThatEndsByItselfEndsTheWaiting(t *testing.T) {
	broken := errors.New("broken")
	p := New(zap.NewNop())
	p.Serve("steady", func(ctx context.Context) error { <-ctx.Done(); return nil })
	p.Serve("fragile", func(context.Context) error { return broken })
	err := p.Wait(t.Context())
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "fragile")
	require.ErrorIs(t, p.Stop(t.Context()), broken)
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	p := New(zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, p.Wait(ctx))
}
