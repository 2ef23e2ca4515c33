package exchange_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/turns"
)

func TestAKeyWithoutLimitsOpensABoundedNumberOfSessions(t *testing.T) {
	c := newCall(t, &configv1.Key{})
	c.env.Sessions = turns.NewPlaces(6)
	next := func() *exchange.Immediate {
		c.Exchange = exchange.New(c.env, c.config)
		return c.handshake("?model=a/talk", exchange.Header{Name: "authorization", Value: "Bearer " + c.key}).Immediate
	}
	var open []*exchange.Exchange
	for range 2 {
		require.Nil(t, next())
		c.upgraded()
		open = append(open, c.Exchange)
	}
	refused := next()
	require.NotNil(t, refused)
	require.Equal(t, http.StatusTooManyRequests, refused.Status)
	require.Contains(t, string(refused.Body), "rate_limit_exceeded")
	c.Close()
	require.NotNil(t, next(), "a refused one gives nothing back")
	open[0].Close()
	require.Nil(t, next())
	require.NotNil(t, next())
}
