package tokens_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tiktoken-go/tokenizer"

	"github.com/modelgate/modelgate/internal/tokens"
)

func TestEstimate(t *testing.T) {
	for bytes, want := range map[int]int64{-1: 0, 0: 0, 1: 1, 4: 1, 5: 2, 4000: 1000} {
		require.Equal(t, want, tokens.Estimate(bytes), bytes)
	}
}

func TestTheVocabularyFollowsFromTheModel(t *testing.T) {
	const text = "你好，世界" // 3 tokens of o200k_base and 6 of cl100k_base
	for model, want := range map[string]int64{
		"gpt-4o-mini": 3, "gpt-4.1": 3, "gpt-5": 3, "my-deployment": 3, "gemini-2.5-pro": 3, "": 3, "openai/gpt-4o": 3,
		"gpt-4": 6, "gpt-4-0613": 6, "gpt-3.5-turbo": 6, "gpt-35-turbo": 6, "ft:gpt-3.5-turbo-0125:org::id": 6,
		"text-embedding-3-small": 6, "openai/gpt-4-turbo": 6, "GPT-4": 6,
	} {
		require.Equal(t, want, tokens.Count("openai", model, text), model)
	}
}

func TestOtherVendorsCountMore(t *testing.T) {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20)
	base := tokens.Count("openai", "gpt-4o", text)
	for _, model := range []string{"claude-opus-5", "us.anthropic.claude-sonnet-4-6", "anthropic/claude-haiku-4.5",
		"claude-3-7-sonnet@20250219"} {
		require.InDelta(t, float64(base)*1.15, float64(tokens.Count("any", model, text)), 1, model)
	}
	require.Greater(t, tokens.Count("mistral", "devstral", text), base)
	require.Equal(t, base, tokens.Count("vllm", "devstral", text))
}

func TestFraming(t *testing.T) {
	f := tokens.FramingOf("openai", "gpt-4o")
	require.Zero(t, f.Answer)
	require.Positive(t, f.Call)
	require.EqualValues(t, 4, f.Message)
	require.Positive(t, tokens.FramingOf("groq", "openai/gpt-oss-120b").Answer)
}

func TestASeparatorIsAToken(t *testing.T) {
	for _, vendor := range []string{"openai", "echo"} {
		for _, model := range []string{"gpt-4o", "gpt-4"} {
			for _, text := range []string{"hello", "hello ", " hello", "hello.", "hello\n\n", "漢", "1234"} {
				alone := tokens.Count(vendor, model, text)
				require.Equal(t, 2*alone+2, tokens.Count(vendor, model, text+tokens.Separator+text+tokens.Separator), "%s %q",
					model, text)
			}
		}
	}
}

func TestTheGatewaysOwnProviderCountsWords(t *testing.T) {
	require.EqualValues(t, 3, tokens.Count("echo", "echo", " one\ttwo\n\ninternationalisation "))
	require.Zero(t, tokens.FramingOf("echo", "echo").Message)
}

// mixed returns text of a length that changes its language on the way, as answers do that explain code.
func mixed(length int) string {
	parts := [...]string{
		"A gateway admits a request only if the tokens that it may use are within the limit. ",
		"func (s *Sample) Add(piece []byte) {\n\tfor len(piece) > 0 {\n\t\tn := min(len(piece), block)\n\t}\n}\n",
		"これはトークンを数えるための文章です。", "Größe und Übermaß: süße Äpfel. ", `{"id": 42, "values": [1.5, 2.25, 3.125]}` + "\n",
	}
	random := rand.New(rand.NewPCG(7, uint64(length)))
	var b strings.Builder
	for b.Len() < length {
		part := parts[b.Len()*len(parts)/length]
		for range 20 {
			b.WriteString(part[:random.IntN(len(part))])
			b.WriteString(part)
		}
	}
	return strings.ToValidUTF8(b.String(), "?")
}

func TestALongTextIsSampledWithinThreePercent(t *testing.T) {
	whole, err := tokenizer.Get(tokenizer.O200kBase)
	require.NoError(t, err)
	for _, length := range []int{100, 10 << 10, 17 << 10, 40 << 10, 150 << 10} {
		text := mixed(length)
		want, err := whole.Count(text)
		require.NoError(t, err)
		require.InEpsilon(t, want, tokens.Count("openai", "gpt-4o", text), 0.03, length)
	}
}

func TestWhereATextIsCutDoesNotMatter(t *testing.T) {
	text := mixed(60 << 10)
	want := tokens.Count("openai", "gpt-4o", text)
	random := rand.New(rand.NewPCG(1, 2))
	for range 2 {
		var s tokens.Sample
		for rest := text; rest != ""; {
			n := min(len(rest), random.IntN(3000))
			s.Add([]byte(rest[:n]))
			rest = rest[n:]
		}
		require.EqualValues(t, len(text), s.Len())
		require.Equal(t, want, s.Count("openai", "gpt-4o"))
	}
}

func TestTextThatIsNoTextIsCounted(t *testing.T) {
	require.Zero(t, tokens.Count("openai", "gpt-4o", ""))
	require.Positive(t, tokens.Count("openai", "gpt-4o", "\xff\xfe\x00"))
	require.Positive(t, tokens.Count("openai", "gpt-4o", strings.Repeat(" ", 1<<20)))
	require.Positive(t, tokens.Count("openai", "gpt-4", strings.Repeat("a", 1<<20)))
}

func TestCountingAtOnce(t *testing.T) {
	text := mixed(2 << 10)
	want := tokens.Count("", "", text)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 3 {
				if got := tokens.Count("", "", text); got != want {
					t.Errorf("%d instead of %d", got, want)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkCount16KB(b *testing.B) {
	text := mixed(16 << 10)
	for b.Loop() {
		tokens.Count("openai", "gpt-4o", text)
	}
}

func TestTextAsInJSON(t *testing.T) {
	for escaped, plain := range map[string]string{
		`one\ntwo\t\"three\" \\ \/`:       "one\ntwo\t\"three\" \\ /",
		`\u00e9\u6f22\ud83d\ude42 \b\f\r`: "é漢🙂 \b\f\r",
		"漢 no escape":                     "漢 no escape",
		`cut \`:                           "cut ",
		`cut \u00`:                        "cut \x00",
		`cut \ud83d`:                      "cut \uFFFD",
		`wrong \uzzzz`:                    "wrong \uFFFDzzzz",
	} {
		var s tokens.Sample
		s.Add([]byte(escaped))
		got := s.CountJSON("", "")
		// As many tokens, in as many bytes of JSON.
		require.Equal(t, tokens.Count("", "", plain), got, escaped)
	}
}
