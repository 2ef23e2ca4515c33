package openai

import (
	"strconv"
)

// A StreamWriter renders the chat.completion.chunk events of one answer as server-sent events. It keeps the rules that
// clients rely on, whatever the vendor did: id, created and model are the same in every chunk; each choice begins with
// one role delta and ends with one finish_reason; with usage asked for, every chunk says "usage":null and one last chunk
// carries it; without, no chunk mentions usage. It is not safe for concurrent use.
type StreamWriter struct {
	buf          []byte
	prefix       []byte // everything of a chunk up to its choices, once Begin was called
	model        string
	created      int64
	includeUsage bool
	choices      []choiceState
	usage        Usage
	tier         string
	done         bool
}

type choiceState struct{ started, finished bool }

// NewStreamWriter returns a writer of chunks for model, the name the client knows, made at created (Unix seconds).
// includeUsage is the client's stream_options.include_usage.
func NewStreamWriter(model string, created int64, includeUsage bool) *StreamWriter {
	return &StreamWriter{model: model, created: created, includeUsage: includeUsage}
}

// Take returns the bytes written since the last call. They are the caller's until the writer is used again.
func (w *StreamWriter) Take() []byte {
	b := w.buf
	w.buf = w.buf[:0]
	if cap(b) > maxIdleBuffer {
		w.buf = nil
	}
	return b
}

// maxIdleBuffer bounds what a stream that is silent holds on to: there are thousands of them.
const maxIdleBuffer = 16 << 10

// Model returns the name the client knows the model by.
func (w *StreamWriter) Model() string { return w.model }

// Created returns when the answer was made, in Unix seconds.
func (w *StreamWriter) Created() int64 { return w.created }

// IncludeUsage reports whether the client asked for usage.
func (w *StreamWriter) IncludeUsage() bool { return w.includeUsage }

// Usage returns what was last given to SetUsage.
func (w *StreamWriter) Usage() Usage { return w.usage }

// SetUsage records the usage of the answer; Done writes it where the client asked for it.
func (w *StreamWriter) SetUsage(u Usage) { w.usage = u }

// Tier returns the service tier that the vendor says it has given, in OpenAI's words, or "".
func (w *StreamWriter) Tier() string { return w.tier }

// SetTier records the service tier. What is empty says nothing.
func (w *StreamWriter) SetTier(tier string) {
	if tier != "" {
		w.tier = tier
	}
}

// Begin sets the id of the answer. Only the first call has an effect.
func (w *StreamWriter) Begin(id string) {
	if w.prefix != nil {
		return
	}
	p := append(w.prefix, `data: {"id":`...)
	p = AppendString(p, id)
	p = append(p, `,"object":"chat.completion.chunk","created":`...)
	p = strconv.AppendInt(p, w.created, 10)
	p = append(p, `,"model":`...)
	p = AppendString(p, w.model)
	w.prefix = append(p, `,"choices":[`...)
}

// Role starts a choice. The other methods do so by themselves; a decoder calls it where the vendor announces the
// answer before its first token.
func (w *StreamWriter) Role(choice int) { w.start(choice, `""`) }

// Text writes a piece of a choice's content.
func (w *StreamWriter) Text(choice int, s string) {
	w.start(choice, `""`)
	w.stringDelta(choice, `"content":`, s)
}

// Reasoning writes a piece of a choice's reasoning, as the extension reasoning_content.
func (w *StreamWriter) Reasoning(choice int, s string) {
	w.start(choice, `""`)
	w.stringDelta(choice, `"reasoning_content":`, s)
}

// Refusal writes a piece of a choice's refusal.
func (w *StreamWriter) Refusal(choice int, s string) {
	w.start(choice, `null`)
	w.stringDelta(choice, `"refusal":`, s)
}

// Raw writes a delta with one member whose value is JSON already.
func (w *StreamWriter) Raw(choice int, member string, value []byte) {
	w.start(choice, `""`)
	w.openDelta(choice)
	w.buf = AppendString(w.buf, member)
	w.buf = append(w.buf, ':')
	w.buf = append(w.buf, value...)
	w.closeDelta(nil)
}

// ToolCall starts the index-th tool call of a choice, counted from 0 within the choice.
func (w *StreamWriter) ToolCall(choice, index int, id, name string) {
	w.toolCall(choice, index, id, name, nil)
}

func (w *StreamWriter) toolCall(choice, index int, id, name string, extra []byte) {
	w.start(choice, `null`)
	w.openDelta(choice)
	w.buf = appendInt(w.buf, `"tool_calls":[{"index":`, int64(index))
	w.buf = append(w.buf, `,"id":`...)
	w.buf = AppendString(w.buf, id)
	w.buf = append(w.buf, `,"type":"function","function":{"name":`...)
	w.buf = AppendString(w.buf, name)
	w.buf = append(w.buf, `,"arguments":""}`...)
	if extra != nil {
		w.buf = append(append(w.buf, `,"extra_content":`...), extra...)
	}
	w.buf = append(w.buf, `}]`...)
	w.closeDelta(nil)
}

// ToolArguments writes a fragment of the arguments of a tool call that ToolCall started. Fragments are opaque: they
// need not be valid JSON by themselves.
func (w *StreamWriter) ToolArguments(choice, index int, fragment string) {
	w.openDelta(choice)
	w.buf = appendInt(w.buf, `"tool_calls":[{"index":`, int64(index))
	w.buf = append(w.buf, `,"function":{"arguments":`...)
	w.buf = AppendString(w.buf, fragment)
	w.buf = append(w.buf, `}}]`...)
	w.closeDelta(nil)
}

// ToolCallExtra is ToolCall with the extension extra_content, which is JSON.
func (w *StreamWriter) ToolCallExtra(choice, index int, id, name string, extra []byte) {
	w.toolCall(choice, index, id, name, extra)
}

// Finish ends a choice with one of OpenAI's finish reasons. Only the first call for a choice has an effect.
func (w *StreamWriter) Finish(choice int, reason string) {
	w.start(choice, `""`)
	if w.choices[choice].finished {
		return
	}
	w.choices[choice].finished = true
	w.openDelta(choice)
	w.closeDelta([]byte(reason))
}

// EventFunc writes one event whose data is a chunk already, which appendData appends to what it is given. It is for answers
// in OpenAI's own dialect.
func (w *StreamWriter) EventFunc(appendData func(dst []byte) []byte) {
	w.buf = append(w.buf, "data: "...)
	w.buf = appendData(w.buf)
	w.buf = append(w.buf, "\n\n"...)
}

// Copy writes bytes of a vendor's stream as they came. They must be whole events and comments once all of them were copied.
func (w *StreamWriter) Copy(raw []byte) { w.buf = append(w.buf, raw...) }

// Complete says that the stream is complete with the end mark that was copied.
func (w *StreamWriter) Complete() { w.done = true }

// UsageChunk writes the chunk that carries the usage, where the client asked for it.
func (w *StreamWriter) UsageChunk() {
	if !w.includeUsage {
		return
	}
	w.buf = append(w.buf, w.prefix...)
	w.buf = append(w.buf, `],"usage":`...)
	w.buf = w.usage.AppendJSON(w.buf)
	w.buf = append(w.buf, "}\n\n"...)
}

// Done writes the end mark of a stream that is complete. Only the first call has an effect.
func (w *StreamWriter) Done() {
	if !w.done {
		w.buf = append(w.buf, "data: [DONE]\n\n"...)
	}
	w.done = true
}

// IsDone reports whether the stream is complete. Nothing of the vendor's matters after that.
func (w *StreamWriter) IsDone() bool { return w.done }

// Error writes an error event. A stream that failed has no end mark after it.
func (w *StreamWriter) Error(e *Error) {
	w.buf = append(w.buf, "data: "...)
	w.buf = e.AppendJSON(w.buf)
	w.buf = append(w.buf, "\n\n"...)
}

// start writes the role delta of a choice that has none yet.
func (w *StreamWriter) start(choice int, content string) {
	for len(w.choices) <= choice {
		w.choices = append(w.choices, choiceState{})
	}
	if w.choices[choice].started {
		return
	}
	w.choices[choice].started = true
	w.openDelta(choice)
	w.buf = append(w.buf, `"role":"assistant","content":`...)
	w.buf = append(w.buf, content...)
	w.closeDelta(nil)
}

func (w *StreamWriter) stringDelta(choice int, member, s string) {
	w.openDelta(choice)
	w.buf = append(w.buf, member...)
	w.buf = AppendString(w.buf, s)
	w.closeDelta(nil)
}

func (w *StreamWriter) openDelta(choice int) {
	w.buf = append(w.buf, w.prefix...)
	w.buf = appendInt(w.buf, `{"index":`, int64(choice))
	w.buf = append(w.buf, `,"delta":{`...)
}

// closeDelta ends the chunk that openDelta began; finish nil means null.
func (w *StreamWriter) closeDelta(finish []byte) {
	w.buf = append(w.buf, `},"logprobs":null,"finish_reason":`...)
	if finish == nil {
		w.buf = append(w.buf, "null}]"...)
	} else {
		w.buf = append(w.buf, '"')
		w.buf = append(w.buf, finish...)
		w.buf = append(w.buf, `"}]`...)
	}
	if w.includeUsage {
		w.buf = append(w.buf, `,"usage":null`...)
	}
	w.buf = append(w.buf, "}\n\n"...)
}
