package metering

import (
	"bytes"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/recordings"
	"github.com/modelgate/modelgate/internal/translate"
)

// counted is how many tokens were counted and reported.
type counted struct{ counted, reported int64 }

func (c counted) ratio() float64 { return float64(c.reported) / float64(c.counted) }

// TestWhatIsCountedIsWhatVendorsReported counts recorded answers, and the prompts of those in OpenAI's dialect. It
// prints what the factors of internal/tokens were taken from.
func TestWhatIsCountedIsWhatVendorsReported(t *testing.T) {
	answers, prompts := map[string]counted{}, map[string]counted{}
	for r := range allRecorded(t) {
		got, _ := r.text.Usage(r.vendor, r.model, openai.Usage{}, true)
		if want := r.usage.CompletionTokens - r.hidden; want > 0 {
			answers[r.vendor] = counted{answers[r.vendor].counted + got.CompletionTokens, answers[r.vendor].reported + want}
		}
		if want := r.usage.PromptTokens; want > 0 && r.plain {
			prompts[r.vendor] = counted{prompts[r.vendor].counted + got.PromptTokens, prompts[r.vendor].reported + want}
		}
	}
	for _, vendor := range slices.Sorted(maps.Keys(answers)) {
		a, p := answers[vendor], prompts[vendor]
		t.Logf("%-12s answers: %5d counted, %5d reported, %.3f; prompts: %5d, %5d, %.3f", vendor, a.counted, a.reported,
			a.ratio(), p.counted, p.reported, p.ratio())
	}
	for _, vendor := range []string{"openai", "azure"} {
		require.InDelta(t, 1, answers[vendor].ratio(), 0.03, vendor)
		require.InDelta(t, 1, prompts[vendor].ratio(), 0.03, vendor)
	}
	require.InDelta(t, 1, answers["anthropic"].ratio(), 0.05)
}

// recorded is an answer of a vendor's, with the text that was kept of it.
type recorded struct {
	vendor, model string
	text          Text
	usage         openai.Usage
	hidden        int64 // tokens of reasoning that nobody sees
	plain         bool  // the prompt is there, and is nothing but text
}

// both gives events to two sinks.
type both [2]chat.Sink

func (b both) Put(e chat.Event) {
	b[0].Put(e)
	b[1].Put(e)
}

// unlike reports whether the tokens that a vendor reported are not those of the text: thoughts are not shown or summed
// up, or the vendor's own tools or other models take part.
func unlike(dir string, body []byte) bool {
	for _, s := range []string{"anthropic/034", "redacted", "reasoning", "citations", "compound", "gpt-4-turbo"} {
		if strings.Contains(dir, s) {
			return true
		}
	}
	return bytes.Contains(body, []byte("server_tool_use"))
}

func allRecorded(t *testing.T) iter.Seq[recorded] {
	return func(yield func(recorded) bool) {
		for _, vendor := range recordings.Vendors(t) {
			files := recordings.Of(t, vendor)
			metas, err := fs.Glob(files, "*/meta.json")
			require.NoError(t, err)
			for _, meta := range metas {
				if r, ok := readRecorded(t, files, vendor, path.Dir(meta)); ok && !yield(r) {
					return
				}
			}
		}
	}
}

func readRecorded(t *testing.T, files fs.FS, name, dir string) (r recorded, ok bool) {
	meta := recordings.Read(t, files, dir+"/meta.json")
	r.vendor, r.model = name, gjson.GetBytes(meta, "model").Str
	vendor, ok := all.Providers()[r.vendor]
	kind := gjson.GetBytes(meta, "kind").Str
	translated := strings.Contains(kind, "chat") || strings.Contains(kind, "messages") ||
		strings.Contains(kind, "onverse")
	if !ok || !translated || gjson.GetBytes(meta, "status").Int() != 200 ||
		gjson.GetBytes(meta, "suspect_synthetic").Bool() {
		return r, false
	}
	body, streamed := answerOf(files, dir)
	q, err := translate.Parse(vendor, translate.Chat, translate.Ask(translate.Chat, nil, "m", streamed, true))
	require.NoError(t, err)
	_, answer, err := q.Encode(provider.Target{Model: r.model, Config: &configv1.Provider{Name: r.vendor,
		Vendor: r.vendor}})
	require.NoError(t, err)
	var out []byte
	asked := chat.Asked{Model: "m", Created: 1, IncludeUsage: true, Plain: true}
	if streamed {
		w := chattest.NewStream("m", 1, true)
		if answer.Stream(asked).Decode(body, both{w, &r.text}) != nil {
			return r, false
		}
		out, r.usage = w.Take(), w.Usage()
	} else {
		if answer.Decode(body, asked, &r.text) != nil {
			return r, false
		}
		if out, r.usage, err = chattest.Decode(answer, body, "m", 1); err != nil {
			return r, false
		}
	}
	if !bytes.Contains(out, []byte("reasoning_content")) {
		r.hidden = r.usage.ReasoningTokens
	}
	request, _ := fs.ReadFile(files, dir+"/request.json")
	if strings.Contains(kind, "chat") {
		r.text.Request(request)
		r.plain = !bytes.Contains(request, []byte(`"tools"`)) && !bytes.Contains(request, []byte("image"))
	}
	return r, !unlike(name+"/"+dir+r.model, body)
}

func answerOf(files fs.FS, dir string) (body []byte, streamed bool) {
	for _, name := range []string{"response.sse", "response.eventstream.bin"} {
		if body, err := fs.ReadFile(files, dir+"/"+name); err == nil {
			return body, true
		}
	}
	body, _ = fs.ReadFile(files, dir+"/response.json")
	return body, false
}
