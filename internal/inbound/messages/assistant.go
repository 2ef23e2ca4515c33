package messages

import (
	"fmt"
	"strings"

	"github.com/modelgate/modelgate/internal/inbound/compose"
	"github.com/modelgate/modelgate/internal/inbound/kinds"
)

// assistant appends a turn of the assistant. Work that Anthropic's own tools did in it means nothing to other vendors.
func (b *builder) assistant(place string, blocks content) error {
	if len(blocks) == 0 {
		return nil
	}
	var thoughts, texts, calls content
	var reasoning strings.Builder
	for i := range blocks {
		k := &blocks[i]
		at := fmt.Sprintf("%s.content.%d", place, i)
		switch k.Type {
		case "text":
			if k.Text != "" { // it may have had citations alone
				texts = append(texts, *k)
			}
		case "thinking":
			reasoning.WriteString(k.Thinking)
			if k.Signature != "" {
				thoughts = append(thoughts, *k)
			}
		case "redacted_thinking":
			thoughts = append(thoughts, *k)
		case "tool_use":
			switch {
			case k.ID == "":
				return required(at + ".id")
			case k.Name == "":
				return required(at + ".name")
			}
			calls = append(calls, *k)
		default:
			table := kinds.Blocks
			if k.Type == "image" {
				table = kinds.AssistantBlocks
			}
			if err := b.other(at, k, table, assistantTags); err != nil {
				return err
			}
		}
	}
	b.open("assistant", place)
	b.Text("reasoning_content", reasoning.String())
	b.thinkingBlocks(thoughts)
	b.said(texts, len(calls) == 0)
	b.calls(calls)
	b.End("}")
	return nil
}

func (b *builder) thinkingBlocks(thoughts content) {
	if len(thoughts) == 0 {
		return
	}
	b.Member("thinking_blocks", "[")
	for i := range thoughts {
		k := &thoughts[i]
		b.Begin("{")
		b.Text("type", k.Type)
		if k.Type == "thinking" {
			b.String("thinking", k.Thinking)
			b.Text("signature", k.Signature)
		} else {
			b.Text("data", k.Data)
		}
		b.End("}")
	}
	b.End("]")
}

// said appends the text of the assistant. Without calls there must be some.
func (b *builder) said(texts content, must bool) {
	switch {
	case len(texts) == 0 && !must:
		return
	case len(texts) == 0:
		texts = content{{Type: "text"}}
	}
	if len(texts) == 1 && !compose.IsAsked(texts[0].CacheControl) {
		b.String("content", texts[0].Text)
		return
	}
	b.Member("content", "[")
	for i := range texts {
		b.textPart(&texts[i])
	}
	b.End("]")
}

func (b *builder) calls(calls content) {
	if len(calls) == 0 {
		return
	}
	b.Member("tool_calls", "[")
	for i := range calls {
		k := &calls[i]
		input := "{}"
		if k.Input.Kind() == '{' {
			input = string(k.Input)
		}
		b.Call(k.ID, k.Name, input)
	}
	b.End("]")
	if last := calls[len(calls)-1].CacheControl; compose.IsAsked(last) {
		b.cache(last)
	}
}
