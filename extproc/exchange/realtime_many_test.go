package exchange_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
)

// TestSessionsThatOpenAtOnceHoldResponses: those that find no room for a usual response are refused at the handshake.
func TestSessionsThatOpenAtOnceHoldResponses(t *testing.T) {
	key := &configv1.Key{Budgets: []*configv1.Budget{{Usd: "0.1", Unit: configv1.Unit_MONTH}}}
	money := limit.Rule{Counter: "budget/key/k/month", Measure: limit.Cost, Window: limit.CalendarMonth, Limit: 1e8}
	first := newCall(t, key)
	var open []*call
	for range 50 {
		c := newCallWith(t, key, first)
		reply := c.handshake("?model=a/talk", exchange.Header{Name: "authorization", Value: "Bearer " + c.key})
		if reply.Immediate != nil {
			require.Equal(t, http.StatusTooManyRequests, reply.Immediate.Status)
			continue
		}
		c.upgraded()
		open = append(open, c)
	}
	require.Len(t, open, 6, "256 tokens of sound for 64 dollars a million are 1.6 cents")
	for _, c := range open {
		require.False(t, c.piece(begins).End, "it is reserved")
	}
	left := 0
	for _, c := range open { // each says far more than is usual
		for n := 0; n < 40 && !c.piece(event(`{"type":"response.output_text.delta","delta":"`+
			strings.Repeat("word ", 200)+`"}`)).End; n++ {
			left++
		}
	}
	require.Less(t, left, 40, "all of them together end with the budget")
	require.InDelta(t, 1e8, first.used(t, money), 120_000)
	spent := int64(0)
	for _, c := range open {
		record := c.Exchange.Close()
		require.NotNil(t, record.Rest)
		spent += int64(record.Rest.Sent(0).Cost)
	}
	require.InDelta(t, 1e8, spent, 30e6, "an event of each session at most")
}

// newCallWith returns a call with the key and the limits of another.
func newCallWith(t testing.TB, key *configv1.Key, other *call) *call {
	c := newCall(t, key)
	c.limits = other.limits
	env := &exchange.Env{Now: func() time.Time { return c.now }, NewID: func() string { return "id" }, Limits: c.limits,
		Spool: c, Current: func() *exchange.Config { return c.config },
		Parts: func(r metering.Record) { c.parts = append(c.parts, r) }}
	c.Exchange = exchange.New(env, c.config)
	return c
}

func TestAHandshakeThatFailsHoldsNothing(t *testing.T) {
	rule := limit.Rule{Counter: "key/k/tokens/hour", Measure: limit.Tokens, Window: limit.Hour, Limit: 500}
	c := newCall(t, &configv1.Key{Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_HOUR,
		RequestsPerUnit: 500}}})
	c.handshake("?model=a/talk", exchange.Header{Name: "authorization", Value: "Bearer " + c.key})
	require.EqualValues(t, 259, c.used(t, rule))
	c.Exchange.Close()
	require.Zero(t, c.used(t, rule))
}
