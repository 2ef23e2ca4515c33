package converse

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// thoughts are the signed reasoning of an answer, which the vendor wants back. Clients get it in Anthropic's form, so
// that a conversation may go on with either vendor.
type thoughts struct {
	carrier openai.Carrier
	all     []messages.Thought
	carried int // how many of them calls carry
}

// add takes in a block of reasoning, and returns it. One that is not signed is left out.
func (t *thoughts) add(text, signature string, redacted []byte) *messages.Thought {
	switch {
	case signature != "":
		t.all = append(t.all, messages.Thought{Text: text, Signature: signature})
	case len(redacted) > 0 && utf8.Valid(redacted):
		t.all = append(t.all, messages.Thought{Redacted: string(redacted)})
	default:
		return nil
	}
	return &t.all[len(t.all)-1]
}

// callID returns the id of a call with the thoughts that came since the one before.
func (t *thoughts) callID(id string) string {
	next := t.all[t.carried:]
	t.carried = len(t.all)
	return messages.CarryThoughts(t.carrier, id, next)
}

// appendRedacted appends reasoning that is encrypted, in base64 around Anthropic's own form.
func appendRedacted(dst []byte, text string) []byte {
	raw, err := base64.StdEncoding.AppendDecode(dst, []byte(text))
	if err != nil {
		return dst
	}
	return raw
}

// thought appends thoughts as the vendor takes them back.
func (e *encoder) thought(dst []block, thoughts []messages.Thought) []block {
	for _, t := range thoughts {
		if t.Marked {
			e.Drop(turns.UnsupportedCache)
		}
		r := &reasoningContent{RedactedContent: []byte(t.Redacted)}
		if t.Redacted == "" {
			r = &reasoningContent{ReasoningText: &reasoningText{t.Text, t.Signature}}
		}
		dst = append(dst, block{ReasoningContent: r})
	}
	return dst
}
