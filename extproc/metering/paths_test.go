package metering_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/gemini"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/internal/usage"
)

// dear has a price of its own for each class, so that a token of the wrong class shows.
var dear = usage.Compile(&configv1.Price{Input: "1.000001", Output: "7.00001", CachedInput: "0.010003",
	CacheWrite: "3.0007", CacheWriteHour: "5.0009", InputAudio: "11.003", OutputAudio: "13.007", Reasoning: "17.001",
	Tiers: []*configv1.PriceTier{{AbovePromptTokens: 200, Input: "19.0003", Output: "23.0009"}},
	ServiceTiers: []*configv1.ServiceTierPrice{{Name: "fast", Factor: "2"}, {Name: "priority", Factor: "3"},
		{Name: "flex", Factor: "0.5"}},
	Tools: []*configv1.ToolPrice{{Name: "web_search", Call: "0.01"}}})

func cost(u openai.Usage, tier string) usage.Nano {
	r := metering.Record{Usage: u}
	var t metering.Tally
	r.SetCost(metering.Price{Rates: dear}, nil, tier, &t)
	return r.Cost
}

// recorded returns the recorded answers of a vendor.
func recorded(t *testing.T, vendor string) map[string][]byte {
	t.Helper()
	root := filepath.Join("..", "..", "..", "shared", "fixtures", vendor)
	if _, err := os.Stat(root); err != nil {
		testenv.Missing(t, "recorded answers beside this repository", "")
	}
	all := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if name := d.Name(); name == "response.json" || name == "response.sse" {
			body, err := os.ReadFile(path)
			all[path] = body
			return err
		}
		return nil
	}))
	return all
}

// TestAnAnswerCostsTheSameOnEveryPath: translated, native for clients of the vendor's dialect, and through a Route,
// cut anywhere.
func TestAnAnswerCostsTheSameOnEveryPath(t *testing.T) {
	for vendor, answers := range map[string][]provider.Answer{
		"anthropic": {&messages.Answer{}, &messages.NativeAnswer{}},
		"gemini":    {&gemini.Answer{}, &gemini.NativeAnswer{}},
	} {
		t.Run(vendor, func(t *testing.T) {
			compared := 0
			for path, body := range recorded(t, vendor) {
				stream := strings.HasSuffix(path, ".sse")
				want, ok := passed(body, stream, len(body))
				if !ok {
					continue
				}
				for _, size := range []int{1, 7, 1000} {
					got, _ := passed(body, stream, size)
					require.Equal(t, want, got, "%s in pieces of %d", path, size)
				}
				for i, a := range answers {
					got, tier, ok := decoded(a, body, stream)
					if !ok || got.Searches > 0 { // of which only a translation knows
						continue
					}
					compared++
					require.Equal(t, want, cost(got, tier), "%s, path %d", path, i)
				}
			}
			require.Greater(t, compared, 20)
		})
	}
}

// passed returns the cost of an answer that passes in pieces, and whether it is complete and reports usage.
func passed(body []byte, stream bool, size int) (usage.Nano, bool) {
	var w metering.Watch = &metering.DocumentWatch{}
	if stream {
		w = &metering.SilentWatch{}
	}
	for rest := body; len(rest) > 0; {
		n := min(size, len(rest))
		w.Feed(rest[:n])
		rest = rest[n:]
	}
	_, complete, failed := w.End()
	r := w.Report()
	return cost(r.Used, r.Tier), complete && !failed && !r.Used.IsZero()
}

// A sink keeps what an answer reports.
type sink struct {
	usage openai.Usage
	tier  string
}

// Put implements chat.Sink.
func (s *sink) Put(e chat.Event) {
	switch {
	case e.Kind == chat.KindUsage:
		s.usage = *e.Usage
	case e.Kind == chat.KindTier && e.Text != "":
		s.tier = e.Text
	}
}

// decoded returns the usage of an answer that a codec reads.
func decoded(a provider.Answer, body []byte, stream bool) (openai.Usage, string, bool) {
	s := &sink{}
	if !stream {
		err := a.Decode(bytes.Clone(body), chat.Asked{Model: "m"}, s)
		return s.usage, s.tier, err == nil
	}
	d := a.Stream(chat.Asked{Model: "m"})
	err := d.Decode(bytes.Clone(body), s)
	return s.usage, s.tier, err == nil && d.Close(s) == nil
}
