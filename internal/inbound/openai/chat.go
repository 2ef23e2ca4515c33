// Package openai writes answers for clients of OpenAI's API: chat completions and legacy completions, as JSON or as
// server-sent events.
package openai

import (
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

// A ChatStream writes an answer as chat.completion.chunk events. It keeps the rules that clients rely on, whatever the
// vendor sent. The members id, created and model are the same in every chunk. Each choice begins with one role delta
// and ends with one finish_reason. If the client asked for usage, every chunk has "usage":null and one last chunk has
// the usage; otherwise no chunk has the member. A ChatStream implements chat.Writer and is not safe for concurrent
// use.
type ChatStream struct {
	buffer
	asked   chat.Asked
	prefix  []byte // the beginning of every chunk, up to its choices, once the answer has begun
	choices []choiceState
	usage   *openai.Usage // for the last chunk
	tier    []byte        // the member service_tier of the last chunks
}

type choiceState struct{ started, finished bool }

// NewChatStream returns a writer of the answer to a request.
func NewChatStream(asked chat.Asked) *ChatStream { return &ChatStream{asked: asked} }

// Put implements chat.Sink.
func (w *ChatStream) Put(e chat.Event) {
	if e.Covered {
		return
	}
	switch e.Kind {
	case chat.KindBegin:
		w.begin(e.ID)
	case chat.KindRole:
		w.start(e.Choice, `""`)
	case chat.KindText:
		w.start(e.Choice, `""`)
		w.stringDelta(&e, `"content":`)
	case chat.KindReasoning:
		w.start(e.Choice, `""`)
		w.stringDelta(&e, `"reasoning_content":`)
	case chat.KindRefusal:
		w.start(e.Choice, `null`)
		w.stringDelta(&e, `"refusal":`)
	case chat.KindMember:
		w.start(e.Choice, `""`)
		w.openDelta(e.Choice)
		w.Buf = openai.AppendString(w.Buf, e.Name)
		w.Buf = append(append(w.Buf, ':'), e.JSON...)
		w.closeDelta(nil, "")
	case chat.KindToolCall:
		w.toolCall(&e)
	case chat.KindArguments:
		w.arguments(&e)
	case chat.KindFinish:
		w.finish(e.Choice, e.Text)
	case chat.KindUsage:
		w.usage = e.Usage
	case chat.KindTier:
		if e.Text != "" {
			w.tier = openai.AppendString(append(w.tier[:0], `,"service_tier":`...), e.Text)
		}
	case chat.KindEnd:
		w.usageChunk()
		w.end()
	default:
		w.raw(&e)
	}
}

// begin sets the id of the answer. Only the first call has an effect.
func (w *ChatStream) begin(id string) {
	if w.prefix == nil {
		w.prefix = appendHead(append(w.prefix, "data: "...), id, "chat.completion.chunk", w.asked)
	}
}

// appendHead appends the beginning of a chunk, up to its choices.
func appendHead(dst []byte, id, object string, asked chat.Asked) []byte {
	dst = openai.AppendString(append(dst, `{"id":`...), id)
	dst = append(append(append(dst, `,"object":"`...), object...), `","created":`...)
	dst = strconv.AppendInt(dst, asked.Created, 10)
	dst = openai.AppendString(append(dst, `,"model":`...), asked.Model)
	return append(dst, `,"choices":[`...)
}

func (w *ChatStream) toolCall(e *chat.Event) {
	w.start(e.Choice, `null`)
	w.openDelta(e.Choice)
	if e.Function {
		w.Buf = openai.AppendString(append(w.Buf, `"function_call":{"name":`...), e.Name)
		w.Buf = append(w.Buf, `,"arguments":""}`...)
		w.closeDelta(nil, "")
		return
	}
	w.Buf = strconv.AppendInt(append(w.Buf, `"tool_calls":[{"index":`...), int64(e.Call), 10)
	w.Buf = openai.AppendString(append(w.Buf, `,"id":`...), e.ID)
	w.Buf = openai.AppendString(append(w.Buf, `,"type":"function","function":{"name":`...), e.Name)
	w.Buf = append(w.Buf, `,"arguments":""}`...)
	if e.JSON != nil {
		w.Buf = append(append(w.Buf, `,"extra_content":`...), e.JSON...)
	}
	w.Buf = append(w.Buf, `}]`...)
	w.closeDelta(nil, "")
}

func (w *ChatStream) arguments(e *chat.Event) {
	w.openDelta(e.Choice)
	if e.Function {
		w.Buf = append(appendText(append(w.Buf, `"function_call":{"arguments":`...), e), '}')
		w.closeDelta(nil, "")
		return
	}
	w.Buf = strconv.AppendInt(append(w.Buf, `"tool_calls":[{"index":`...), int64(e.Call), 10)
	w.Buf = appendText(append(w.Buf, `,"function":{"arguments":`...), e)
	w.Buf = append(w.Buf, `}}]`...)
	w.closeDelta(nil, "")
}

// finish ends a choice. Only the first call for a choice has an effect.
func (w *ChatStream) finish(choice int, reason string) {
	w.start(choice, `""`)
	if w.choices[choice].finished {
		return
	}
	w.choices[choice].finished = true
	w.openDelta(choice)
	w.closeDelta(nil, reason)
}

// usageChunk writes the chunk with the usage, if the client asked for it and the vendor reported it.
func (w *ChatStream) usageChunk() {
	if !w.asked.IncludeUsage || w.usage == nil {
		return
	}
	w.Buf = append(append(w.Buf, w.prefix...), `],"usage":`...)
	w.Buf = append(append(w.usage.AppendJSON(w.Buf), w.tier...), "}\n\n"...)
}

// start writes the role delta of a choice, once.
func (w *ChatStream) start(choice int, content string) {
	for len(w.choices) <= choice {
		w.choices = append(w.choices, choiceState{})
	}
	if w.choices[choice].started {
		return
	}
	w.choices[choice].started = true
	w.openDelta(choice)
	w.Buf = append(append(w.Buf, `"role":"assistant","content":`...), content...)
	w.closeDelta(nil, "")
}

func (w *ChatStream) stringDelta(e *chat.Event, member string) {
	w.openDelta(e.Choice)
	w.Buf = appendText(append(w.Buf, member...), e)
	w.closeDelta(e.Logprobs, "")
}

// appendText appends the text of an event as a JSON string.
func appendText(dst []byte, e *chat.Event) []byte {
	if e.JSON != nil {
		return append(dst, e.JSON...)
	}
	return openai.AppendString(dst, e.Text)
}

func (w *ChatStream) openDelta(choice int) {
	w.Buf = append(append(w.Buf, w.prefix...), `{"index":`...)
	w.Buf = append(strconv.AppendInt(w.Buf, int64(choice), 10), `,"delta":{`...)
}

// closeDelta ends the chunk that openDelta began. Absent logprobs and an absent reason become null.
func (w *ChatStream) closeDelta(logprobs []byte, reason string) {
	w.Buf = append(w.Buf, `},"logprobs":`...)
	if logprobs == nil {
		logprobs = null
	}
	w.Buf = append(append(w.Buf, logprobs...), `,"finish_reason":`...)
	if reason == "" {
		w.Buf = append(w.Buf, "null}]"...)
	} else {
		w.Buf = append(openai.AppendString(w.Buf, reason), "}]"...)
	}
	if w.asked.IncludeUsage {
		w.Buf = append(w.Buf, `,"usage":null`...)
	}
	if reason != "" {
		w.Buf = append(w.Buf, w.tier...)
	}
	w.Buf = append(w.Buf, "}\n\n"...)
}

var null = []byte("null")
