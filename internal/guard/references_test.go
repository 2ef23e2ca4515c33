package guard

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/chat"
)

// each writes every character of a text in another way.
func each(text string, as func(r rune) string) string {
	var b strings.Builder
	for _, r := range text {
		b.WriteString(as(r))
	}
	return b.String()
}

// Numbers and addresses are found as people and programs write them, in requests and in answers, and come back as the
// client wrote them.
func TestNumbersBehindReferences(t *testing.T) {
	const card, mail = "4111111111111111", "ann.lee@mail.example.com"
	by := func(separator string) string {
		return strings.Join([]string{"4111", "1111", "1111", "1111"}, separator)
	}
	of := func(format string) func(string) string {
		return func(text string) string { return each(text, func(r rune) string { return fmt.Sprintf(format, r) }) }
	}
	from := func(zero rune) string {
		return each(card, func(r rune) string { return string(zero + r - '0') })
	}
	texts := []string{
		of("&#%d;")(card), of("&#x%x;")(mail), of("%%%x")(mail), of(`\x%x`)(card), of(`\u%04x`)(mail),
		"ann.lee&#64;mail.example.com", "ann.lee&commat;mail&period;example.com", "mailto:ann.lee%40mail.example.com",
		`ann\.lee\@mail\.example\.com`, "ann.lee&amp;#64;mail.example.com", "ann.lee\u200b@\u2060mail.example.com",
		"ann.lee﹫mail.example.com", "ann.lee@mail。example。com", "\u202e" + card + "\u202c",
		from(0xFF10), from(0x1D7CE), from(0x1FBF0), from(0x2460 - 1), from(0x2776 - 1),
		each(card, func(r rune) string { return string(r) + "\u0332" }),
		each(card, func(r rune) string { return string(r) + "\u200d" }),
		each(card, func(r rune) string { return string(r) + "\ufe0f\u20e3" }),
		"DE89\u200b3704\u200b0044 0532 0130 00", "DE89-37040044-05320130-00", "+49 30/1234567", "＋49 30 1234567",
		`sk\-proj\-abcdefghijklmnopqrstuvwx`, "sk‑proj‑abcdefghijklmnopqrstuvwx", "123‑45‑6789", "192&period;168.0.12",
	}
	for _, separator := range []string{"&nbsp;", "&#160;", "&#x2011;", "&#8209;", "&shy;", "&zwnj;", "%20", `\-`, `\_`,
		`\.`, "ー", "➖", "⸺", "\u2800", "\u180e", "\u2066", "\ufeff", " — ", "\u00a0-\u00a0", "・"} {
		texts = append(texts, by(separator))
	}
	s := set(t, everyKind())
	r := rand.New(rand.NewPCG(5, 6))
	for _, text := range texts {
		for layers := range 3 {
			own := inLayers(r, "see "+text+" ok", layers)
			body, err := json.Marshal(map[string]string{"prompt": own})
			require.NoError(t, err)
			got := ask(t, s, string(body))
			var said struct{ Prompt string }
			require.NoError(t, json.Unmarshal(got.Body, &said))
			require.Contains(t, said.Prompt, "_1]", "%q in %d layers", text, layers)
			back, _ := play(t, nil, got.Masks, chat.ToolCall(0, 0, "c", "f"), chat.Arguments(0, 0, said.Prompt),
				chat.Finish(0, "tool_calls"), chat.End())
			if layers == 0 {
				require.Equal(t, own, back.Choices[0].Calls[0].Arguments, "it comes back as the client wrote it")
				continue
			}
			require.Equal(t, unfolded(t, own), unfolded(t, back.Choices[0].Calls[0].Arguments))
		}
		for range 3 {
			heard := &chat.Answer{}
			a := NewAnswer(s, &Masks{}, true, nil)
			events := cutUp(r, "see "+text+" ok", func(p string) chat.Event { return chat.Text(0, p) })
			for _, e := range append(events, chat.Finish(0, "stop"), chat.End()) {
				require.NoError(t, a.Put(t.Context(), e, heard))
			}
			require.Regexp(t, `^see .*\[[A-Z_]+\].* ok$`, heard.Choices[0].Text, "%q", text)
			require.NotContains(t, heard.Choices[0].Text, text)
		}
	}
}

// What stands in tables and lists is not one number, and what only looks like a reference is none.
func TestWhatIsNoNumber(t *testing.T) {
	s := set(t, everyKind())
	for _, text := range []string{
		"4111\t1111\t1111\t1111", "4111  1111  1111  1111", "4111, 1111, 1111, 1111", "4111/1111/1111/1111",
		"<td>4111</td><td>1111</td><td>1111</td><td>1111</td>", "4111|1111|1111|1111", "a & b; c", "&unknown;", "&;", "&#;",
		"&#x;", "&#1114112;", "100% of 4%", "%zz", "%", "&", `\x`, `\xzz`, `C:\x41\new`, "for i%2 == 0 && j", "4ー",
	} {
		body, err := json.Marshal(map[string]string{"prompt": text})
		require.NoError(t, err)
		require.Equal(t, string(body), string(ask(t, s, string(body)).Body), text)
	}
}

// The client's own text comes back as JSON in JSON: in lists too, however the pieces are cut, and if others come
// between them.
func TestOwnTextsInListsAndBetweenOthers(t *testing.T) {
	s := set(t, everyKind())
	const key = "-----BEGIN PRIVATE KEY-----\nab\"c\\d\n-----END PRIVATE KEY-----"
	r := rand.New(rand.NewPCG(7, 8))
	for _, form := range []string{`{"a":%s}`, `[%s]`, ` [ {"a":%s} ]`, "\n[true, %s]", `[[1,%s]]`} {
		quoted, err := json.Marshal(key)
		require.NoError(t, err)
		own := fmt.Sprintf(form, quoted)
		body, err := json.Marshal(map[string]string{"prompt": own})
		require.NoError(t, err)
		got := ask(t, s, string(body))
		var said struct{ Prompt string }
		require.NoError(t, json.Unmarshal(got.Body, &said))
		require.Contains(t, said.Prompt, "[SECRET_1]")
		for range 20 {
			events := []chat.Event{chat.ToolCall(0, 0, "c", "f"), chat.ToolCall(0, 1, "d", "g")}
			for _, e := range cutUp(r, said.Prompt, func(p string) chat.Event { return chat.Arguments(0, 0, p) }) {
				events = append(events, e, chat.Text(0, "x"), chat.Arguments(0, 1, " "))
			}
			for _, judged := range []*Set{s, nil} {
				back, _ := play(t, judged, got.Masks, append(events, chat.Finish(0, "tool_calls"), chat.End())...)
				require.Equal(t, unfolded(t, own), unfolded(t, back.Choices[0].Calls[0].Arguments), own)
			}
		}
	}
	for text, want := range map[string]string{"[SECRET_1] is it": key + " is it", "[see] [SECRET_1]": "[see] " + key,
		"[1] [SECRET_1]": "[1] " + key, "[ ] [SECRET_1]": "[ ] " + key, `["a", "[EMAIL_1]"]`: `["a", "[EMAIL_1]"]`} {
		body, err := json.Marshal(map[string]string{"prompt": key})
		require.NoError(t, err)
		back, _ := play(t, nil, ask(t, s, string(body)).Masks, chat.Text(0, text[:1]), chat.Text(0, text[1:]),
			chat.Finish(0, "stop"), chat.End())
		require.Equal(t, want, back.Choices[0].Text)
	}
}
