package messages

import (
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

// A stream writes an answer as Anthropic's events. At most one block is open at a time, and blocks follow one another:
// that is what the SDKs' accumulators expect. It implements chat.Writer and is not safe for concurrent use.
type stream struct {
	chat.Buffer
	asked chat.Asked

	native   bool // the vendor's own events are passed
	begun    bool
	index    int       // of the open block, or of the next one
	open     blockKind // of the open block
	signed   bool      // the open block of thinking has its signature
	unsigned bool      // a block of thinking has ended without one
	finished string    // OpenAI's finish reason
	refused  bool
	usage    openai.Usage
	tier     string

	calls []call // by their index
	live  int    // the index of the call whose block is open
}

type blockKind uint8

const (
	noBlock blockKind = iota
	textBlock
	thinkingBlock
	toolBlock
)

// A call is a call of a tool. One call at a time is written as it comes. Others wait until it is complete, because
// vendors may send the arguments of several calls in turns.
type call struct {
	id, name string
	held     []byte // arguments that wait
	input    object // tells when the arguments are complete
	written  bool
}

// Put implements chat.Sink.
func (w *stream) Put(e chat.Event) {
	switch {
	case e.Kind == chat.KindNative:
		w.native = true
		w.Buf = append(w.Buf, e.JSON...)
		return
	case e.Choice > 0, w.native && e.Kind != chat.KindError: // a message is one choice
		return
	}
	switch e.Kind {
	case chat.KindBegin:
		w.begin(e.ID)
	case chat.KindText, chat.KindRefusal:
		w.refused = w.refused || e.Kind == chat.KindRefusal
		w.piece(textBlock, &e)
	case chat.KindReasoning:
		w.piece(thinkingBlock, &e)
	case chat.KindToolCall:
		w.call(&e)
	case chat.KindArguments:
		w.arguments(&e)
	case chat.KindSigned:
		w.sign(e.JSON)
	case chat.KindMember:
		w.member(&e)
	case chat.KindFinish:
		w.finished = e.Text
	case chat.KindUsage:
		w.usage = *e.Usage
	case chat.KindTier:
		w.tier = e.Text
	case chat.KindEnd:
		w.end()
	case chat.KindError:
		w.Buf = appendErrorEvent(w.Buf, e.Error)
	}
}

// begin writes message_start. Only the first call has an effect. What the vendor has not counted by then is 0, and
// stands in message_delta.
func (w *stream) begin(id string) {
	if w.begun {
		return
	}
	w.begun = true
	w.Buf = append(w.Buf, `event: message_start`+"\n"+`data: {"type":"message_start","message":{"id":`...)
	w.Buf = appendHead(w.Buf, id, w.asked.Model)
	w.Buf = append(w.Buf, `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	w.Buf = append(appendUsage(w.Buf, w.usage, w.tier), "}}\n\n"...)
	w.tier = "" // it is reported once
}

// appendHead appends the id of a message and its constant members.
func appendHead(dst []byte, id, model string) []byte {
	dst = openai.AppendString(dst, messageID(id))
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	return openai.AppendString(dst, model)
}

func messageID(id string) string {
	if strings.HasPrefix(id, "msg_") {
		return id
	}
	return "msg_" + strings.TrimPrefix(id, "chatcmpl-")
}

// appendUsage appends the usage as Anthropic counts it: input_tokens has no cached ones.
func appendUsage(dst []byte, u openai.Usage, tier string) []byte {
	u.CachedTokens = min(u.CachedTokens, u.PromptTokens)
	plain := max(0, u.PromptTokens-u.CachedTokens-u.CacheWriteTokens)
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), plain, 10)
	dst = strconv.AppendInt(append(dst, `,"cache_creation_input_tokens":`...), u.CacheWriteTokens, 10)
	dst = strconv.AppendInt(append(dst, `,"cache_read_input_tokens":`...), u.CachedTokens, 10)
	if u.WritesSplit {
		dst = strconv.AppendInt(append(dst, `,"cache_creation":{"ephemeral_5m_input_tokens":`...),
			u.CacheWriteTokens-u.HourWriteTokens, 10)
		dst = append(strconv.AppendInt(append(dst, `,"ephemeral_1h_input_tokens":`...), u.HourWriteTokens, 10), '}')
	}
	dst = strconv.AppendInt(append(dst, `,"output_tokens":`...), u.CompletionTokens, 10)
	if u.ReasoningTokens > 0 {
		dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"thinking_tokens":`...), u.ReasoningTokens, 10)
		dst = append(dst, '}')
	}
	if u.SearchesKnown && u.Searches > 0 {
		dst = strconv.AppendInt(append(dst, `,"server_tool_use":{"web_search_requests":`...), u.Searches, 10)
		dst = append(dst, '}')
	}
	switch tier {
	case "":
	case "default":
		dst = append(dst, `,"service_tier":"standard"`...)
	default:
		dst = openai.AppendString(append(dst, `,"service_tier":`...), tier)
	}
	return append(dst, '}')
}

// event begins an event of the block with the current index.
func (w *stream) event(name string) {
	w.Buf = append(append(w.Buf, "event: "...), name...)
	w.Buf = append(append(w.Buf, "\ndata: {\"type\":\""...), name...)
	w.Buf = strconv.AppendInt(append(w.Buf, `","index":`...), int64(w.index), 10)
}

// close ends the open block.
func (w *stream) close() {
	if w.open == noBlock {
		return
	}
	if w.open == thinkingBlock && !w.signed {
		w.unsigned = true
		w.event("content_block_delta")
		w.Buf = append(w.Buf, `,"delta":{"type":"signature_delta","signature":""}}`+"\n\n"...)
	}
	w.event("content_block_stop")
	w.Buf = append(w.Buf, "}\n\n"...)
	w.index++
	w.open = noBlock
}

// starts are the beginnings of blocks of text and thinking, and deltas those of their pieces.
var (
	starts = [...]string{textBlock: `{"type":"text","text":""}`, thinkingBlock: `{"type":"thinking","thinking":"","signature":""}`}
	deltas = [...]string{textBlock: `{"type":"text_delta","text":`, thinkingBlock: `{"type":"thinking_delta","thinking":`}
)

// piece writes a piece of text or thinking.
func (w *stream) piece(kind blockKind, e *chat.Event) {
	if e.JSON == nil && e.Text == "" || string(e.JSON) == `""` {
		return
	}
	w.openPiece(kind)
	w.event("content_block_delta")
	w.Buf = append(append(w.Buf, `,"delta":`...), deltas[kind]...)
	if e.JSON != nil {
		w.Buf = append(w.Buf, e.JSON...)
	} else {
		w.Buf = openai.AppendString(w.Buf, e.Text)
	}
	w.Buf = append(w.Buf, "}}\n\n"...)
}

// openPiece begins a block of text or thinking, unless one of the kind is open.
func (w *stream) openPiece(kind blockKind) {
	w.begin("")
	if w.open == kind {
		return
	}
	w.flushCalls()
	w.close()
	w.open, w.signed = kind, false
	w.event("content_block_start")
	w.Buf = append(append(append(w.Buf, `,"content_block":`...), starts[kind]...), "}\n\n"...)
}

// end completes the message.
func (w *stream) end() {
	w.begin("")
	w.flushCalls()
	w.close()
	w.Buf = append(w.Buf, `event: message_delta`+"\n"+`data: {"type":"message_delta","delta":{"stop_reason":`...)
	w.Buf = openai.AppendString(w.Buf, stopReason(w.finished, w.refused))
	w.Buf = append(w.Buf, `,"stop_sequence":null},"usage":`...)
	w.Buf = append(appendUsage(w.Buf, w.usage, w.tier), "}\n\n"...)
	w.Buf = append(w.Buf, `event: message_stop`+"\n"+`data: {"type":"message_stop"}`+"\n\n"...)
}

func stopReason(finished string, refused bool) string {
	switch finished {
	case "length":
		return "max_tokens"
	case "tool_calls", "function_call":
		return "tool_use"
	case "content_filter":
		return "refusal"
	}
	if refused {
		return "refusal"
	}
	return "end_turn"
}
