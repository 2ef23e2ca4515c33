package exchange_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
)

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// Ten thousand clients read streams at the same time, each with an address of its own that the provider does not see.
// Each gets its own address back, and never another's. What the gateway holds of each is a
// sample of its text.
func TestMaskedStreamsLeakNothingAndTheirMemoryIsInProportion(t *testing.T) {
	const streams, rounds = 10_000, 40
	m := guarded(t, emails(configv1.GuardMode_MASK, configv1.GuardSide_REQUESTS, configv1.GuardSide_ANSWERS))
	m.key.Limits, m.key.Budgets = nil, nil
	m.configure()
	const words = "some words without a name, "
	address := func(i int) string { return fmt.Sprintf("u%05d@x.example", i) }
	feed := func(x *exchange.Exchange, chunk string, last bool) string {
		return string(x.ResponseBody(t.Context(), []byte(chunk), last).Body)
	}
	open := make([]*exchange.Exchange, streams)
	for i := range open {
		ask := strings.NewReplacer(`{"model`, `{"stream":true,"model`, "ann@x.example", address(i))
		x, sent := m.chat(ask.Replace(askMail))
		require.Contains(t, string(sent.Body), "[EMAIL_1]")
		require.NotContains(t, string(sent.Body), "@x.example")
		answer(x, "200", "text/event-stream")
		open[i] = x
	}
	round := func() {
		for _, x := range open {
			require.NotContains(t, feed(x, chunkOf(words), false), "@")
		}
	}
	round()
	before := heap()
	for range rounds {
		round()
	}
	grown := (heap() - before) / streams
	t.Logf("after %d more chunks each: %d bytes a stream", rounds, grown)
	require.Less(t, grown, int64(1024+2*rounds*len(words)), "a sample of the text is kept for the usage, and no more")

	for i, x := range open {
		// The vendor's chunks are cut elsewhere in each stream, also within a placeholder.
		said := chunkOf("Dear [EM") + chunkOf("AIL_1], not "+address(i+1)+"!") + ended + usage11 + over
		cut := i % len(said)
		got := feed(x, said[:cut], false) + feed(x, said[cut:], true)
		text, _ := deltas(got)
		require.Contains(t, text, "Dear "+address(i)+", not [EMAIL]!")
		require.Equal(t, 1, strings.Count(got, "@"))
		x.Close()
	}
	require.Len(t, m.ended, streams)
}
