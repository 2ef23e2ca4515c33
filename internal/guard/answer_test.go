package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/chat"
)

// A client is what a client gets of an answer.
type client struct {
	chat.Answer
	finishes int
}

func (c *client) Put(e chat.Event) {
	if e.Kind == chat.KindFinish {
		c.finishes++
	}
	c.Answer.Put(e)
}

// play sends the events through a guard.
func play(t testing.TB, s *Set, m *Masks, events ...chat.Event) (*client, *Answer) {
	t.Helper()
	a := NewAnswer(s, m, true, nil)
	require.NotNil(t, a)
	c := &client{}
	for _, e := range events {
		require.NoError(t, a.Put(t.Context(), e, c))
	}
	return c, a
}

// pieces returns the events of a text in two pieces, cut at every byte.
func pieces(text string, cut int) []chat.Event {
	return []chat.Event{chat.Begin("a"), chat.Role(0), chat.Text(0, text[:cut]), chat.Text(0, text[cut:]),
		chat.Finish(0, "stop"), chat.End()}
}

func masksOf(t testing.TB, text string) *Masks {
	t.Helper()
	body, err := json.Marshal(map[string]string{"prompt": text})
	require.NoError(t, err)
	return ask(t, set(t, everyKind()), string(body)).Masks
}

func TestTextsAreRestoredAtEveryCut(t *testing.T) {
	m := masksOf(t, "ann@x.example bob@x.example")
	text := "Dear [EMAIL_1], [EMAIL_2] [EMAIL_3] says: a[0] and [EMAIL_1]! 😀 ["
	const want = "Dear ann@x.example, bob@x.example [EMAIL_3] says: a[0] and ann@x.example! 😀 ["
	for cut := range len(text) {
		c, a := play(t, nil, m, pieces(text, cut)...)
		require.Equal(t, want, c.Choices[0].Text, cut)
		require.Empty(t, a.Findings)
	}
	var events []chat.Event
	for i := range len(text) {
		events = append(events, chat.Text(0, text[i:i+1]))
	}
	c, _ := play(t, nil, m, append(events, chat.Finish(0, "stop"), chat.End())...)
	require.Equal(t, want, c.Choices[0].Text, "a byte at a time")
}

func TestWithoutPlaceholdersNothingIsHeldBack(t *testing.T) {
	m := masksOf(t, "ann@x.example")
	c := &client{}
	a := NewAnswer(nil, m, true, nil)
	require.NoError(t, a.Put(t.Context(), chat.Text(0, "a [list](x) and "), c))
	require.Equal(t, "a [list](x) and ", c.Choices[0].Text)
	require.NoError(t, a.Put(t.Context(), chat.Text(0, "b [EM"), c))
	require.Equal(t, "a [list](x) and b ", c.Choices[0].Text)
}

func TestArgumentsStayJSON(t *testing.T) {
	quoted := &configv1.GuardRule{Mode: mask, Patterns: []string{`secret "[^"]*"`}}
	m := ask(t, set(t, quoted), `{"prompt":"the secret \"a\nb\" is"}`).Masks
	arguments := `{"a":"[R0_1]","b":["[R0_1]"]}`
	for cut := range len(arguments) {
		c, _ := play(t, nil, m, chat.ToolCall(0, 0, "c", "f"), chat.Arguments(0, 0, arguments[:cut]),
			chat.Arguments(0, 0, arguments[cut:]), chat.Finish(0, "tool_calls"), chat.End())
		require.JSONEq(t, `{"a":"secret \"a\nb\"","b":["secret \"a\nb\""]}`, c.Choices[0].Calls[0].Arguments)
	}
}

func TestAnswersAreMaskedAtEveryCut(t *testing.T) {
	s := set(t, everyKind())
	text := strings.Repeat("some text. ", 20) + "Mail ann@x.example, card 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00. " +
		strings.Repeat("ö and more. ", 20) + "sk-proj-abcdefghijklmnopqrstuvwx"
	want := strings.NewReplacer("ann@x.example", "[EMAIL]", "4111 1111 1111 1111", "[CARD]",
		"DE89 3704 0044 0532 0130 00", "[IBAN]", "sk-proj-abcdefghijklmnopqrstuvwx", "[SECRET]").Replace(text)
	for cut := range len(text) {
		c, a := play(t, s, &Masks{}, pieces(text, cut)...)
		require.Equal(t, want, c.Choices[0].Text, cut)
		require.Equal(t, 4, a.Findings[Finding{"g/r0", "mask", SideAnswer}], cut)
	}
	for size := 1; size < 40; size++ {
		var events []chat.Event
		for from := 0; from < len(text); from += size {
			events = append(events, chat.Text(0, text[from:min(from+size, len(text))]))
		}
		c, a := play(t, s, &Masks{}, append(events, chat.Finish(0, "stop"), chat.End())...)
		require.Equal(t, want, c.Choices[0].Text, size)
		require.Equal(t, 4, a.Findings[Finding{"g/r0", "mask", SideAnswer}], size)
	}
}

func TestTheClientsOwnTextsAreNoFindings(t *testing.T) {
	c, a := play(t, set(t, everyKind()), masksOf(t, "ann@x.example"), pieces("[EMAIL_1] and bob@x.example", 5)...)
	require.Equal(t, "ann@x.example and [EMAIL]", c.Choices[0].Text)
	require.Equal(t, []string{"mask g/r0 in the answer: 1"}, a.Findings.Texts())
}

func TestAnAnswerThatIsBlocked(t *testing.T) {
	s := set(t, finds(block, configv1.SensitiveData_CARD))
	text := strings.Repeat("fine. ", 50) + "4111 1111 1111 1111 " + strings.Repeat("and more. ", 50)
	for cut := range len(text) {
		c, a := play(t, s, &Masks{}, append(pieces(text, cut)[:4], chat.ToolCall(0, 0, "c", "f"),
			chat.Arguments(0, 0, "{}"), chat.Text(1, "another choice"), chat.Finish(0, "stop"), chat.Finish(1, "stop"),
			chat.End())...)
		require.Equal(t, strings.Repeat("fine. ", 50), c.Choices[0].Text, cut)
		require.Equal(t, "content_filter", c.Choices[0].FinishReason)
		require.Empty(t, c.Choices[0].Calls)
		require.Equal(t, "another choice", c.Choices[1].Text)
		require.Equal(t, 2, c.finishes)
		require.Equal(t, "g/r0", a.Blocked)
	}
}

func TestTheDelayIsBounded(t *testing.T) {
	s := set(t, everyKind())
	a, c := NewAnswer(s, &Masks{}, true, nil), &client{}
	sent := 0
	for i := range 2000 {
		piece := fmt.Sprintf("word%d ", i)
		sent += len(piece)
		require.NoError(t, a.Put(t.Context(), chat.Text(0, piece), c))
		got := 0
		if len(c.Choices) > 0 {
			got = len(c.Choices[0].Text)
		}
		require.LessOrEqual(t, sent-got, s.window+s.window/seldom)
	}
	endless := "-----BEGIN PRIVATE KEY-----"
	require.NoError(t, a.Put(t.Context(), chat.Text(0, endless), c))
	for range 100 {
		require.NoError(t, a.Put(t.Context(), chat.Text(0, strings.Repeat("A", 1000)), c))
		require.Less(t, len(a.lanes[0].items[0].text.held), 2*maxHeld, "memory is bounded")
	}
}

func BenchmarkGuardRequest(b *testing.B) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` +
		strings.Repeat("The quick brown fox jumps over 13 lazy dogs. ", 450) + `write to ann@x.example"}]}`)
	for name, s := range map[string]*Set{"every kind": set(b, everyKind()),
		"e-mail": set(b, finds(mask, configv1.SensitiveData_EMAIL))} {
		b.Run(name+" 20KB", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				_, _ = s.Request(b.Context(), NewWork(), body)
			}
		})
	}
}

func BenchmarkGuardChunk(b *testing.B) {
	m := masksOf(b, "ann@x.example")
	never := func(context.Context, []string) (string, error) { return "", nil }
	for name, s := range map[string]*Set{"restored only": nil, "every kind": set(b, everyKind()),
		"checker": set(b, judgedBy("c"))} {
		b.Run(name, func(b *testing.B) {
			a, c := NewAnswer(s, m, true, never), sink{}
			for b.Loop() {
				_ = a.Put(b.Context(), chat.Text(0, "some more words "), c)
			}
		})
	}
}

type sink struct{}

func (sink) Put(chat.Event) {}
