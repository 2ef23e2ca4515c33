package proc

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestPartsEndInReverseOrder(t *testing.T) {
	p := NewParts(zap.NewNop())
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
	p := NewParts(zap.NewNop())
	p.Serve("steady", func(ctx context.Context) error { <-ctx.Done(); return nil })
	p.Serve("fragile", func(context.Context) error { return broken })
	err := p.Wait(t.Context())
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "fragile")
	require.ErrorIs(t, p.Stop(t.Context()), broken)
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	p := NewParts(zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, p.Wait(ctx))
}

func TestListenReplacesASocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "mg")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	address := "unix://" + filepath.Join(dir, "x.sock")
	old, err := Listen(address)
	require.NoError(t, err)
	successor, err := Listen(address)
	require.NoError(t, err)
	require.NoError(t, old.Close())

	connection, err := net.Dial("unix", strings.TrimPrefix(address, "unix://"))
	require.NoError(t, err, "the end of the old one does not remove the socket of its successor")
	require.NoError(t, connection.Close())
	info, err := os.Stat(strings.TrimPrefix(address, "unix://"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, successor.Close())
}

func TestGatewayAddress(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:0": "127.0.0.1:0",
		"localhost:0": "127.0.0.1:0",
		":0":          "0.0.0.0:0",
	} {
		at, err := GatewayAddress(listen)
		require.NoError(t, err, listen)
		require.Equal(t, want, at.String())
	}
	for _, listen := range []string{"", "127.0.0.1", "name.test:1", "127.0.0.1:65536"} {
		_, err := GatewayAddress(listen)
		require.ErrorContains(t, err, "--listen", listen)
	}

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, err = GatewayAddress(taken.Addr().String())
	require.ErrorContains(t, err, "address already in use")
}
