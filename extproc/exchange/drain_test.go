package exchange_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
)

// refusedWith begins an exchange whose key is wrong, and whose body is announced as so many bytes; none where that is
// not told.
func refusedWith(t *testing.T, m *meter, announced int) (*exchange.Exchange, exchange.Reply) {
	h := exchange.Headers{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/chat/completions"},
		{Name: "content-type", Value: "application/json"}}
	if announced > 0 {
		h = append(h, exchange.Header{Name: "content-length", Value: strconv.Itoa(announced)})
	}
	x := exchange.New(m.env, m.config)
	reply := x.RequestHeaders(t.Context(), h, false)
	require.Equal(t, 401, reply.Immediate.Status)
	return x, x.Drain(reply.Immediate, h)
}

func TestAnAnswerWaitsForTheRestOfTheRequest(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1"})
	for name, c := range map[string]struct {
		announced int
		pieces    []int // of bytes
		waits     int   // for so many of them
		ends      bool
	}{
		"small":                            {300_000, []int{100_000, 100_000, 100_000}, 2, true},
		"of one piece":                     {1, []int{1}, 0, true},
		"of unknown length":                {0, []int{1 << 19, 1<<19 - 1, 0}, 2, true},
		"as large as may be":               {1 << 20, []int{1 << 19, 1 << 19}, 1, true},
		"larger than may be, unannounced":  {0, []int{1 << 19, 1 << 19}, 1, false},
		"larger than may be in one piece":  {0, []int{3 << 20}, 0, false},
		"with pieces that have nothing":    {0, []int{0, 0, 0}, 2, true},
		"whole, as older Envoys show them": {40_000, []int{40_000}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			x, reply := refusedWith(t, m, c.announced)
			require.True(t, reply.Drain && reply.Immediate == nil && reply.Patience > 0)
			require.NotEmpty(t, reply.Names.ID, "Envoy says who cut it")
			for i, n := range c.pieces {
				require.True(t, x.Draining())
				reply = x.DrainPiece(n, c.ends && i == len(c.pieces)-1)
				require.Equal(t, i < c.waits, reply.Immediate == nil)
				require.Equal(t, i < c.waits, reply.ReplaceBody, "nothing of it goes on")
				require.Empty(t, reply.Body)
			}
			require.Equal(t, 401, reply.Immediate.Status)
			require.True(t, x.Draining())
			require.Equal(t, exchange.Reply{Wait: true}, x.DrainPiece(1<<14, c.ends), "pieces may be under way to it")
			_, again := x.Release()
			require.False(t, again, "there is one answer")
			require.Equal(t, metering.OutcomeRejected, x.Close().Outcome)
		})
	}
	t.Run("announced as larger", func(t *testing.T) {
		x, reply := refusedWith(t, m, 1<<20+1)
		require.Equal(t, 401, reply.Immediate.Status)
		require.False(t, x.Draining())
	})
	t.Run("too slow", func(t *testing.T) {
		x, _ := refusedWith(t, m, 1<<20)
		require.Nil(t, x.DrainPiece(1, false).Immediate)
		reply, ok := x.Release()
		require.True(t, ok)
		require.Equal(t, 401, reply.Immediate.Status)
	})
}

// TestRequestsThatDrainAreBounded holds that those who make many wait find that they do not any more, and that all
// have an answer.
func TestRequestsThatDrainAreBounded(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1"})
	var open []*exchange.Exchange
	for range 1024 {
		x, reply := refusedWith(t, m, 300_000)
		require.True(t, reply.Drain)
		open = append(open, x)
	}
	_, reply := refusedWith(t, m, 300_000)
	require.Equal(t, 401, reply.Immediate.Status, "one too many")
	require.NotNil(t, open[0].DrainPiece(300_000, true).Immediate)
	_, released := open[1].Release()
	require.True(t, released)
	r := open[2].Close() // the client has left
	require.Equal(t, metering.OutcomeRejected, r.Outcome)
	open[0].Close()
	open[1].Close()
	for range 3 {
		_, reply = refusedWith(t, m, 300_000)
		require.True(t, reply.Drain, "there is room again, once for each")
	}
	_, reply = refusedWith(t, m, 300_000)
	require.NotNil(t, reply.Immediate)
}
