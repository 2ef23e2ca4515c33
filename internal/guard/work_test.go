package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/scan"
)

// square is a pattern whose matches each look at the rest of the text.
func square(mode configv1.GuardMode) *configv1.GuardRule {
	return &configv1.GuardRule{Name: "square", Mode: mode, Patterns: []string{`a(?:.*b)?`}}
}

func message(text string) []byte {
	return []byte(`{"messages":[{"role":"user","content":"` + text + `"}]}`)
}

func wordList(n int) (words []string) {
	for i := range n {
		words = append(words, fmt.Sprintf("word%05d", i))
	}
	return words
}

// smallWork is a small allowance of work.
func smallWork() *Work {
	return &Work{strict: *scan.NewWork(1 << 22), observed: *scan.NewWork(1 << 20)}
}

func TestWorkThatIsUsedUp(t *testing.T) {
	long := strings.Repeat("a", 300_000)
	_, err := set(t, square(mask)).Request(t.Context(), smallWork(), message(long))
	u, ok := errors.AsType[*Unjudged](err)
	require.True(t, ok)
	require.Equal(t, openai.CodeGuardrailWorkExceeded, u.Refusal().Code)
	require.Equal(t, "g/square", u.Rule)

	blocks := &configv1.GuardRule{Name: "secret", Mode: block, Words: []string{"secret"}}
	s := set(t, square(observe), blocks)
	r, err := s.Request(t.Context(), smallWork(), message(long))
	require.NoError(t, err, "a rule that observes refuses nothing")
	require.Equal(t, 1, r.Findings[Finding{"g/square", ModeFailed, SideRequest}])
	r, err = s.Request(t.Context(), smallWork(), message(long+" secret"))
	require.NoError(t, err)
	require.Equal(t, "g/secret", r.Blocked, "and takes no work from others")
}

func TestAnAnswerThatTakesTooMuchWork(t *testing.T) {
	s := set(t, square(mask))
	a := NewAnswer(s, &Masks{}, false, nil)
	a.Work = smallWork()
	var err error
	for i := 0; i < 10 && err == nil; i++ {
		err = a.Put(t.Context(), chat.Text(i, strings.Repeat("a", 100_000)), sink{})
	}
	require.ErrorContains(t, err, "more work")
	require.Equal(t, "g/square", a.Unjudged)
}

func TestWorkEndsWithItsClient(t *testing.T) {
	words := &configv1.GuardRule{Mode: block, Words: wordList(10_000)}
	for name, s := range map[string]*Set{"a pattern": set(t, square(mask)), "words": set(t, words),
		"data": set(t, everyKind()), "many": set(t, words, square(observe), everyKind())} {
		ctx, leave := context.WithCancel(t.Context())
		work, pieces := NewWork(), 0
		work.Pause(func(context.Context) error {
			if pieces++; pieces == 2 {
				leave()
			}
			return nil
		})
		_, err := s.Request(ctx, work, message(strings.Repeat("aa word00001 ", 30_000)))
		require.ErrorIs(t, err, context.Canceled, name)
		require.Equal(t, 2, pieces, name)
	}
}

// The steps on a request grow with its text and not with the number of words, and with patterns in proportion.
func TestStepsInProportionToTheConfiguration(t *testing.T) {
	text := strings.Repeat("Please tell word00017 and project-12 of ann@x.example what 2 teams do. ", 300)
	steps := func(bytes int, rules ...*configv1.GuardRule) int64 {
		w := NewWork()
		before := w.strict.Left()
		_, err := set(t, rules...).Request(t.Context(), w, message(text[:bytes]))
		require.NoError(t, err)
		return before - w.strict.Left()
	}
	words := func(n int) *configv1.GuardRule {
		return &configv1.GuardRule{Name: "w", Mode: block, Words: wordList(n)[18:]}
	}
	patterns := func(n int) *configv1.GuardRule {
		r := &configv1.GuardRule{Name: "p", Mode: block}
		for i := range n {
			r.Patterns = append(r.Patterns, fmt.Sprintf(`project-\d+x%d`, i))
		}
		return r
	}
	half, all := len(text)/2, len(text)
	for name, of := range map[string]func(n int) *configv1.GuardRule{"words": words, "patterns": patterns} {
		require.LessOrEqual(t, steps(all, of(50)), 2*steps(half, of(50))+1000, "twice the text: "+name)
		require.LessOrEqual(t, steps(all, of(100)), 2*steps(all, of(50))+1000, "twice the "+name)
		second := of(50)
		second.Name = "second"
		require.LessOrEqual(t, steps(all, of(50), second), 2*steps(all, of(50))+1000, "twice the rules of "+name)
	}
	require.LessOrEqual(t, steps(all, words(10_000)), steps(all, words(1000))*5/4, "words cost nothing by their number")
}

// A stream in small pieces is not looked at again and again, whatever is held back.
func TestStepsOnAStreamInProportion(t *testing.T) {
	steps := func(window uint32, pieces int) int64 {
		s := set(t, &configv1.GuardRule{Name: "w", Mode: block, Words: wordList(100)})
		s.window = int(window)
		a := NewAnswer(s, &Masks{}, true, nil)
		before := a.Work.strict.Left()
		for range pieces {
			require.NoError(t, a.Put(t.Context(), chat.Text(0, "word "), sink{}))
		}
		return before - a.Work.strict.Left()
	}
	small := steps(128, 20_000)
	require.LessOrEqual(t, steps(128, 40_000), 2*small+small/8)
	require.LessOrEqual(t, steps(4096, 20_000), 3*small, "thirty-two times as much is held back")
}

func TestWhatHasNotChangedIsNotCompiledAgain(t *testing.T) {
	g := func(name string, words ...string) *configv1.Guardrail {
		return &configv1.Guardrail{Name: name, Rules: []*configv1.GuardRule{{Name: "r", Mode: block, Words: words}}}
	}
	first, err := Compile([]*configv1.Guardrail{g("a", "x"), g("b", "y")})
	require.NoError(t, err)
	next, err := first.Next([]*configv1.Guardrail{g("b", "z"), g("a", "x")})
	require.NoError(t, err)
	require.Same(t, first[0], next[1])
	require.NotSame(t, first[1], next[0])
}

// Names of tools are the client's, and the patterns that allow them the configuration's.
func TestNamesOfToolsAreCountedToo(t *testing.T) {
	r := &configv1.GuardRule{Name: "tools", Mode: block}
	for i := range 1000 {
		r.AllowedTools = append(r.AllowedTools, fmt.Sprintf("*a*a*%d", i))
	}
	tools := slices.Repeat([]offered.Tool{{Kind: offered.Function, Name: strings.Repeat("a", 60) + "999"}}, 200)
	_, err := set(t, r).Tools(t.Context(), smallWork(), tools, Findings{})
	require.ErrorAs(t, err, new(*Unjudged))
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err = set(t, r).Tools(ctx, NewWork(), tools, Findings{})
	require.ErrorIs(t, err, context.Canceled)
}
