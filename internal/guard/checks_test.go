package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

func judgedBy(checker string) *configv1.GuardRule {
	return &configv1.GuardRule{Mode: configv1.GuardMode_BLOCK, Checker: checker}
}

// A court judges that texts with a word are bad, and remembers what it has seen.
type court struct {
	bad  string
	err  error
	seen []string
}

func (c *court) judge(_ context.Context, texts []string) (string, error) {
	c.seen = append(c.seen, texts...)
	if c.bad != "" && strings.Contains(strings.Join(texts, ""), c.bad) {
		return "g/r0", c.err
	}
	return "", nil
}

// tried puts events through a guard whose texts a court judges.
func tried(t testing.TB, c *court, streamed bool, masks *Masks, events ...chat.Event) (*client, *Answer, error) {
	t.Helper()
	a, got := NewAnswer(set(t, judgedBy("c")), masks, streamed, c.judge), &client{}
	for _, e := range events {
		if err := a.Put(t.Context(), e, got); err != nil {
			return got, a, err
		}
	}
	return got, a, nil
}

// Nothing reaches the client that was not judged, every byte is judged, and what stands around a cut is judged
// together.
func TestEveryByteOfAnAnswerIsJudgedBeforeItIsSent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		text := strings.Repeat("wörd 😀 ", 1+random.IntN(600))
		c := &court{}
		a, got := NewAnswer(set(t, judgedBy("c")), &Masks{}, true, c.judge), &client{}
		for rest := text; rest != ""; {
			n := min(len(rest), 1+random.IntN(700))
			for n < len(rest) && !utf8.RuneStart(rest[n]) {
				n++
			}
			require.NoError(t, a.Put(t.Context(), chat.Text(0, rest[:n]), got))
			rest = rest[n:]
			if len(got.Choices) > 0 {
				require.True(t, strings.HasSuffix(got.Choices[0].Text, c.seen[len(c.seen)-1]))
			}
		}
		require.NoError(t, a.Put(t.Context(), chat.Finish(0, "stop"), got))
		require.NoError(t, a.Put(t.Context(), chat.End(), got))
		require.Equal(t, text, got.Choices[0].Text)
		whole := ""
		for i, seen := range c.seen {
			require.True(t, utf8.ValidString(seen))
			require.Less(t, len(seen), 3<<10)
			overlap := 0
			for n := min(256, len(seen), len(whole)); i > 0 && n > 0 && overlap == 0; n-- {
				if strings.HasSuffix(whole, seen[:n]) {
					overlap = n
				}
			}
			require.True(t, i == 0 || overlap > 240, "%d %d", i, overlap)
			whole += seen[overlap:]
		}
		require.Equal(t, len(text), len(whole))
	}
}

func TestACheckerEndsAnAnswer(t *testing.T) {
	fine := strings.Repeat("fine. ", 200)
	events := []chat.Event{chat.Begin("a"), chat.Role(0), chat.Role(1), chat.Text(0, fine), chat.Text(1, "short"),
		chat.Text(0, "bad"), chat.Text(0, fine), chat.ToolCall(0, 0, "c", "f"), chat.Arguments(0, 0, "{}"),
		chat.Finish(0, "stop"), chat.Finish(1, "stop"), chat.Usage(openai.Usage{TotalTokens: 7}), chat.End()}
	got, a, err := tried(t, &court{bad: "bad"}, true, &Masks{}, events...)
	require.NoError(t, err)
	require.Equal(t, fine, got.Choices[0].Text)
	require.Equal(t, "content_filter content_filter", got.Choices[0].FinishReason+" "+got.Choices[1].FinishReason)
	require.Empty(t, got.Choices[0].Calls)
	require.Equal(t, 2, got.finishes)
	require.EqualValues(t, 7, got.Usage.TotalTokens)
	require.Equal(t, "g/r0", a.Blocked)

	got, _, err = tried(t, &court{bad: "bad"}, false, &Masks{}, events...)
	require.NoError(t, err)
	require.Empty(t, got.Choices[0].Text+got.Choices[1].Text, "an answer that is not streamed is judged whole")
	require.Equal(t, 2, got.finishes)

	away := errors.New("away")
	got, _, err = tried(t, &court{bad: "bad", err: away}, true, &Masks{}, events...)
	require.ErrorIs(t, err, away)
	require.Equal(t, fine, got.Choices[0].Text)
}

func TestWhatAChoiceHasEndedStaysEnded(t *testing.T) {
	fine := strings.Repeat("fine. ", 200)
	got, _, err := tried(t, &court{bad: "bad"}, true, &Masks{}, chat.Text(0, fine), chat.Finish(0, "length"),
		chat.Text(1, fine), chat.Text(1, "bad"), chat.End())
	require.NoError(t, err)
	require.Equal(t, "length content_filter", got.Choices[0].FinishReason+" "+got.Choices[1].FinishReason)
	require.Equal(t, 2, got.finishes)
}

// A checker sees what the provider wrote: placeholders, and not the client's own texts.
func TestACheckerOfAnswersSeesPlaceholders(t *testing.T) {
	c := &court{}
	got, _, err := tried(t, c, true, masksOf(t, "ann@x.example"), pieces("Dear [EMAIL_1]!", 7)...)
	require.NoError(t, err)
	require.Equal(t, "Dear ann@x.example!", got.Choices[0].Text)
	require.Equal(t, []string{"Dear [EMAIL_1]!"}, c.seen)

	c = &court{}
	s := set(t, judgedBy("c"), finds(mask, configv1.SensitiveData_EMAIL))
	a, got := NewAnswer(s, &Masks{}, false, c.judge), &client{}
	for _, e := range pieces("Ask bob@x.example", 3) {
		require.NoError(t, a.Put(t.Context(), e, got))
	}
	require.Equal(t, "Ask [EMAIL]", got.Choices[0].Text)
	require.Equal(t, []string{"Ask [EMAIL]"}, c.seen)
}

func TestEveryKindOfTextIsJudged(t *testing.T) {
	c := &court{}
	_, _, err := tried(t, c, false, &Masks{}, chat.Reasoning(0, "thought"), chat.Refusal(0, "no"),
		chat.ToolCall(0, 0, "c", "f"), chat.Arguments(0, 0, `{"a":"b"}`), chat.Finish(0, "stop"), chat.End())
	require.NoError(t, err)
	require.Equal(t, []string{"thought", "no", `{"a":"b"}`}, c.seen)

	c = &court{}
	_, _, err = tried(t, c, false, &Masks{}, chat.Text(0, strings.Repeat("a", 300<<10)), chat.Finish(0, "stop"),
		chat.End())
	require.NoError(t, err)
	require.Len(t, c.seen, 2, "a checker takes 256 KB")
	require.Less(t, len(slices.MaxFunc(c.seen, func(a, b string) int { return len(a) - len(b) })), 256<<10)
}

func TestEventsWithoutTextDoNotWait(t *testing.T) {
	c := &court{}
	got, _, err := tried(t, c, true, &Masks{}, chat.Begin("a"), chat.Role(0))
	require.NoError(t, err)
	require.Equal(t, "a", got.ID)
	require.Len(t, got.Choices, 1)
	a, got := NewAnswer(set(t, judgedBy("c")), &Masks{}, true, c.judge), &client{}
	for range 3 * maxEvents {
		require.NoError(t, a.Put(t.Context(), chat.Arguments(0, 0, ""), got))
		require.NoError(t, a.Put(t.Context(), chat.Member(0, "m", []byte("1")), got))
		require.LessOrEqual(t, len(a.checks.events), maxEvents)
	}
	require.NoError(t, a.Put(t.Context(), chat.Text(0, "a"), got))
	for range 3 * maxEvents {
		require.NoError(t, a.Put(t.Context(), chat.Member(0, "m", []byte("1")), got))
		require.LessOrEqual(t, len(a.checks.events), maxEvents, "what is held back is bounded")
	}
}
