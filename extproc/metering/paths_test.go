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
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/provider/dialects/gemini"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/internal/translate"
	"github.com/modelgate/modelgate/internal/usage"
)

// dear has a price of its own for each class, so that a token of the wrong class shows.
var dear = usage.Compile(&configv1.Price{Input: "1.000001", Output: "7.00001", CachedInput: "0.010003",
	CacheWrite: "3.0007", CacheWriteHour: "5.0009", InputAudio: "11.003", OutputAudio: "13.007", Reasoning: "17.001",
	Tiers: []*configv1.PriceTier{{AbovePromptTokens: 200, Input: "19.0003", Output: "23.0009"}},
	ServiceTiers: []*configv1.ServiceTierPrice{{Name: "fast", Factor: "2"}, {Name: "priority", Factor: "3"},
		{Name: "flex", Factor: "0.5"}},
	Tools: []*configv1.ToolPrice{{Name: "web_search", Call: "0.01"}}})

func cost(u openai.Usage, tier string, t metering.Tally) usage.Nano {
	r := metering.Record{Usage: u}
	r.SetCost(metering.Price{Rates: dear}, nil, tier, &t)
	return r.Cost
}

// recorded returns the recorded answers of a vendor.
func recorded(t *testing.T, vendor string) map[string][]byte {
	t.Helper()
	root := filepath.Join("..", "..", "..", "shared", "fixtures")
	if _, err := os.Stat(root); err != nil {
		testenv.Missing(t, "recorded answers beside this repository", "")
	}
	all := map[string][]byte{}
	root = filepath.Join(root, vendor)
	if _, err := os.Stat(root); err != nil {
		return all // nothing is recorded of it
	}
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
	compared := 0
	for vendor, p := range all.Providers() {
		t.Run(vendor, func(t *testing.T) {
			answers := answersOf(p)
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
					if !ok || got.Searches > 0 && (vendor == "gemini" || vendor == "vertex") {
						continue // only a translation knows of these
					}
					compared++
					require.Equal(t, want, cost(got, tier, metering.Tally{}), "%s, path %d", path, i)
				}
			}
		})
	}
	require.Greater(t, compared, 300)
}

// answersOf returns what reads a vendor's answers to chats: in its own API, over /responses, and for clients of its
// dialect.
func answersOf(p provider.Provider) (answers []provider.Answer) {
	target := provider.Target{Config: &configv1.Provider{Name: p.Name, Vendor: p.Name, Project: "p", Region: "us-east5",
		Endpoint: "https://vendor.example/v1"}}
	const tools = `,"tools":[{"type":"function","function":{"name":"f"}}]`
	for model, more := range map[string]string{"m": "", "gpt-5.6": tools} {
		r, err := translate.Parse(p, translate.Chat,
			[]byte(`{"model":"`+model+`","messages":[{"role":"user","content":"a"}]`+more+`}`))
		if err != nil {
			continue
		}
		target.Model, target.Facts = model, catalog.New(nil).Facts(p.Name, model)
		if _, a, err := r.Encode(target); err == nil { // otherwise it takes no tools
			answers = append(answers, a)
		}
	}
	switch p.Name {
	case "anthropic":
		answers = append(answers, &messages.NativeAnswer{})
	case "gemini":
		answers = append(answers, &gemini.NativeAnswer{})
	}
	return answers
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
	return cost(r.Used, r.Tier, r.Tally), complete && !failed && !r.Used.IsZero()
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

// TestWhereAnswersThatPassReportTheirUsage has the places beside "usage" itself.
func TestWhereAnswersThatPassReportTheirUsage(t *testing.T) {
	const call, spent = `{"type":"web_search_call"}`, `"usage":{"input_tokens":100,"output_tokens":0}`
	tokens := usage.Nano(100_000) // and a tenth of a nano-dollar
	for name, c := range map[string]struct {
		body   string
		stream bool
		want   usage.Nano
	}{
		"calls of responses": {`{"output":[` + call + `,` + call + `],` + spent + `}`, false, tokens + 20_000_000},
		"calls, of which one is billed": {`{"output":[` + call + `,` + call + `],"tool_usage":{"web_search":` +
			`{"num_requests":1}},` + spent + `}`, false, tokens + 10_000_000},
		"likewise, streamed": {`data: {"type":"response.output_item.done","item":` + call + "}\n\n" +
			`data: {"type":"response.output_item.done","item":` + call + "}\n\n" +
			`data: {"type":"response.completed","response":{"tool_usage":{"web_search":{"num_requests":1}},` + spent + "}}\n\n",
			true, tokens + 10_000_000},
		"Bedrock's tier": {`{"usage":{"inputTokens":100,"outputTokens":0},"serviceTier":{"type":"flex"}}`, false, tokens / 2},
		"Gemini's interactions": {`data: {"event_type":"interaction.completed","interaction":{"usage":{"total_input_tokens":` +
			"100,\"total_tokens\":100}}}\n\n", true, tokens},
	} {
		got, complete := passed([]byte(c.body), c.stream, 7)
		require.True(t, complete, name)
		require.Equal(t, c.want, got, name)
	}
}
