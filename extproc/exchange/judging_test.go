package exchange_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/turns"
)

// squared is a rule whose matches each look at the rest of the text.
func squared(mode configv1.GuardMode) *configv1.GuardRule {
	return &configv1.GuardRule{Name: "square", Mode: mode, Patterns: []string{`a(?:.*b)?`}}
}

func asks(text string) string {
	return `{"model":"a/m-1","messages":[{"role":"user","content":"` + text + `"}],"max_tokens":40}`
}

// rich has no limits in the way of a large request.
func rich(m *meter) *meter {
	m.key.Limits, m.key.Budgets = nil, nil
	m.configure()
	return m
}

func TestLargeTextsAreJudgedInTurns(t *testing.T) {
	m := rich(guarded(t, &configv1.GuardRule{Name: "w", Mode: configv1.GuardMode_MASK, Words: []string{"secret"}}))
	m.env.Turns = turns.New(1, 1)
	x, reply := m.chat(asks(strings.Repeat("nothing ", 50_000) + "secret"))
	require.True(t, reply.Queue, "other requests do not wait for it")
	reply = x.Turn(t.Context())
	require.NotNil(t, reply.Plan)
	require.Contains(t, string(reply.Body), "[W_1]")
	running, waiting := m.env.Turns.Load()
	require.Zero(t, running+waiting, "the turn was given back")
	_, reply = m.chat(asks("a secret"))
	require.False(t, reply.Queue, "a small one has no turn")
}

func TestJudgingEndsWithItsClient(t *testing.T) {
	m := rich(guarded(t, squared(configv1.GuardMode_MASK)))
	m.env.Turns = turns.New(1, 1)
	x, reply := m.chat(asks(strings.Repeat("a", 300_000)))
	require.True(t, reply.Queue)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	require.Equal(t, exchange.Reply{Wait: true}, x.Turn(ctx))
	running, waiting := m.env.Turns.Load()
	require.Zero(t, running+waiting)
	require.False(t, x.Close().Dispatched)
}

func TestJudgingThatTakesTooMuchWork(t *testing.T) {
	text := strings.Repeat("a", 300_000)
	m := rich(guarded(t, squared(configv1.GuardMode_MASK)))
	x, _ := m.chat(asks(text))
	reply := x.Turn(t.Context())
	require.Equal(t, 400, reply.Immediate.Status)
	require.EqualValues(t, openai.CodeGuardrailWorkExceeded, gjson.GetBytes(reply.Immediate.Body, "error.code").Str)
	require.Equal(t, "guardrail g/square", x.Close().RefusedBy)

	m = rich(guarded(t, squared(configv1.GuardMode_OBSERVE)))
	x, _ = m.chat(asks(text))
	require.NotNil(t, x.Turn(t.Context()).Plan)
	require.Contains(t, x.Close().Guards.Texts(), "failed g/square in the request: 1")
}

// The organization that has the turn and the queue full gets a 429, and another its turn.
func TestTurnsOfOrganizations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rich(guarded(t, &configv1.GuardRule{Name: "w", Mode: configv1.GuardMode_BLOCK, Words: []string{"secret"}}))
		m.env.Turns = turns.New(1, 1)
		var busy turns.Turn
		require.NoError(t, busy.Take(t.Context(), m.env.Turns, "acme"))
		text := asks(strings.Repeat("nothing ", 50_000))
		done := make(chan exchange.Reply, 1)
		first, _ := m.chat(text)
		go func() { done <- first.Turn(t.Context()) }()
		synctest.Wait()
		second, _ := m.chat(text)
		reply := second.Turn(t.Context())
		require.Equal(t, 429, reply.Immediate.Status)
		require.Equal(t, "1", reply.Immediate.Header.Get("Retry-After"))
		reply = <-done // the clock of the bubble goes on
		require.Equal(t, 503, reply.Immediate.Status)
		require.Equal(t, "1", reply.Immediate.Header.Get("Retry-After"))
		busy.Release()
		running, waiting := m.env.Turns.Load()
		require.Zero(t, running+waiting)
	})
}

func TestAnAnswerThatTakesTooMuchWorkIsCharged(t *testing.T) {
	m := rich(guarded(t, &configv1.GuardRule{Name: "square", Mode: configv1.GuardMode_MASK,
		In: []configv1.GuardSide{configv1.GuardSide_ANSWERS}, Patterns: []string{`a(?:.*b)?`}}))
	x, reply := m.chat(asks("hi"))
	require.NotNil(t, reply.Plan)
	answer(x, "200", "application/json")
	require.True(t, x.MayJudge(300_000), "it has a goroutine of its own")
	require.False(t, x.MayJudge(100))
	out := x.ResponseBody(t.Context(), []byte(strings.Replace(whole, "hello", strings.Repeat("a", 300_000), 1)), true)
	require.Contains(t, string(out.Body), openai.CodeGuardrailWorkExceeded)
	require.NotContains(t, string(out.Body), "aaaa")
	r := x.Close()
	require.Equal(t, "guardrail g/square", r.RefusedBy)
	require.True(t, r.Priced)
	require.NotZero(t, r.Cost)
}
