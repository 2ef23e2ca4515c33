package exchange_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAcmeIsAFilter(t *testing.T) {
	m := newMeter(t, fullKey())
	const ask = `","messages":[{"role":"user","content":"hi"}]}`
	_, reply := m.ask("/v1/chat/completions", `{"model":"a/anvil`+ask)
	require.NotNil(t, reply.Immediate)
	require.Equal(t, 403, reply.Immediate.Status)
	require.Contains(t, string(reply.Immediate.Body), "There is no anvil.")
	_, reply = m.ask("/v1/chat/completions", `{"model":"a/m-1`+ask)
	require.NotNil(t, reply.Plan, "other requests go on")
}
