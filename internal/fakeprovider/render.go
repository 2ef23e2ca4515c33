package fakeprovider

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

const fingerprint = "fp_echo"

// fragment is how many bytes of a tool call's arguments one chunk carries.
const fragment = 8

type completion struct {
	ID                string   `json:"id"`
	Object            string   `json:"object"`
	Created           int64    `json:"created"`
	Model             string   `json:"model"`
	Choices           []choice `json:"choices"`
	Usage             any      `json:"usage,omitempty"`
	SystemFingerprint string   `json:"system_fingerprint"`
}

type choice struct {
	Index        int     `json:"index"`
	Message      any     `json:"message,omitempty"`
	Delta        any     `json:"delta,omitempty"`
	Logprobs     *bool   `json:"logprobs"` // always null
	FinishReason *string `json:"finish_reason"`
}

type message struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	Index    *int     `json:"index,omitempty"` // in chunks only
	ID       string   `json:"id,omitempty"`
	Type     string   `json:"type,omitempty"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

func (a *answer) head(object string) completion {
	return completion{ID: a.id, Object: object, Created: a.created, Model: a.model, Choices: []choice{},
		SystemFingerprint: fingerprint}
}

// usage counts words; a tool call's arguments count as one.
func (a *answer) usage() usage {
	n := (len(a.words) + 2*len(a.calls)) * a.choices
	return usage{PromptTokens: a.prompt, CompletionTokens: n, TotalTokens: a.prompt + n}
}

// completion returns the whole answer.
func (a *answer) completion() completion {
	m := message{Role: "assistant"}
	if len(a.calls) == 0 {
		text := strings.Join(a.words, "")
		m.Content = &text
	}
	for _, c := range a.calls {
		m.ToolCalls = append(m.ToolCalls, toolCall{ID: c.id, Type: "function", Function: function{c.name, c.arguments}})
	}
	out := a.head("chat.completion")
	for i := range a.choices {
		out.Choices = append(out.Choices, choice{Index: i, Message: m, FinishReason: &a.finish})
	}
	out.Usage = a.usage()
	return out
}

// deltas returns what a choice says chunk by chunk, the role first.
func (a *answer) deltas() []any {
	if len(a.calls) == 0 {
		deltas := []any{map[string]any{"role": "assistant", "content": "", "refusal": nil}}
		for _, w := range a.words {
			deltas = append(deltas, map[string]any{"content": w})
		}
		return deltas
	}
	deltas := []any{map[string]any{"role": "assistant", "content": nil}}
	for i, c := range a.calls {
		add := func(t toolCall) {
			t.Index = &i
			deltas = append(deltas, map[string]any{"tool_calls": []toolCall{t}})
		}
		add(toolCall{ID: c.id, Type: "function", Function: function{Name: c.name}})
		for rest := c.arguments; rest != ""; {
			n := min(fragment, len(rest))
			for n < len(rest) && rest[n]&0xc0 == 0x80 { // not within a rune
				n++
			}
			add(toolCall{Function: function{Arguments: rest[:n]}})
			rest = rest[n:]
		}
	}
	return deltas
}

// stream writes the answer as server-sent events, each flushed by itself, until ctx is cancelled or the client has
// gone.
func (a *answer) stream(ctx context.Context, w http.ResponseWriter, includeUsage bool) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	flush := http.NewResponseController(w).Flush
	send := func(data []byte) bool {
		_, err := w.Write(append(append([]byte("data: "), data...), "\n\n"...))
		return err == nil && flush() == nil && ctx.Err() == nil
	}
	chunk := func(choices []choice, u any) bool {
		out := a.head("chat.completion.chunk")
		if out.Choices = choices; includeUsage {
			out.Usage = u
		}
		data, err := json.Marshal(out)
		return err == nil && send(data)
	}
	unknown := json.RawMessage("null") // what usage is until the last chunk
	for _, delta := range a.deltas() {
		for i := range a.choices {
			if !chunk([]choice{{Index: i, Delta: delta}}, unknown) {
				return
			}
		}
	}
	for i := range a.choices {
		if !chunk([]choice{{Index: i, Delta: map[string]any{}, FinishReason: &a.finish}}, unknown) {
			return
		}
	}
	if includeUsage && !chunk([]choice{}, a.usage()) {
		return
	}
	send([]byte("[DONE]"))
}
