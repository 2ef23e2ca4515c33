package openai

import (
	"strconv"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

// A CompletionStream writes an answer as the events of a legacy completion. Each choice has its text, and ends with a
// chunk without text. Reasoning is omitted. It implements chat.Writer and is not safe for concurrent use.
type CompletionStream struct {
	buffer
	asked    chat.Asked
	head     []byte      // the beginning of every chunk, up to its choices, once the answer has begun
	offsets  map[int]int // by choice, the offset of the next token in the text, in characters
	finished map[int]bool
	usage    []byte // for the last chunk, as JSON
}

// NewCompletionStream returns a writer of the answer to a request.
func NewCompletionStream(asked chat.Asked) *CompletionStream {
	return &CompletionStream{asked: asked, offsets: map[int]int{}, finished: map[int]bool{}}
}

// Put implements chat.Sink.
func (w *CompletionStream) Put(e chat.Event) {
	if e.Covered {
		return
	}
	switch e.Kind {
	case chat.KindBegin:
		if w.head == nil {
			w.head = appendHead(append(w.head, "data: "...), e.ID, "text_completion", created(w.asked, e.Created))
		}
	case chat.KindText:
		w.text(&e)
	case chat.KindFinish:
		if !w.finished[e.Choice] {
			w.finished[e.Choice] = true
			w.write(appendChoice(nil, e.Choice, "", nil, e.Text), "null")
		}
	case chat.KindUsage:
		if w.usage = append(w.usage[:0], e.JSON...); e.JSON == nil {
			w.usage = e.Usage.AppendJSON(w.usage)
		}
	case chat.KindEnd:
		if w.usage != nil && w.asked.IncludeUsage {
			w.write(nil, string(w.usage))
		}
		w.end()
	default:
		w.raw(&e)
	}
}

// created returns asked with the creation time that the vendor reported.
func created(asked chat.Asked, at int64) chat.Asked {
	if at > 0 {
		asked.Created = at
	}
	return asked
}

func (w *CompletionStream) text(e *chat.Event) {
	offset := w.offsets[e.Choice]
	logprobs := appendLogprobs(nil, e.Logprobs, &offset)
	w.offsets[e.Choice] = offset
	if text := e.String(); text != "" || logprobs != nil {
		w.write(appendChoice(nil, e.Choice, text, logprobs, ""), "null")
	}
}

// write writes a chunk with the choices, and with the usage if the client asked for it.
func (w *CompletionStream) write(choices []byte, usage string) {
	w.Buf = append(append(append(w.Buf, w.head...), choices...), ']')
	if w.asked.IncludeUsage {
		w.Buf = append(append(w.Buf, `,"usage":`...), usage...)
	}
	w.Buf = append(w.Buf, "}\n\n"...)
}

// NewCompletionDocument returns a writer of a legacy completion.
func NewCompletionDocument(asked chat.Asked) chat.Writer {
	return &document{asked: asked, render: appendCompletion}
}

// appendCompletion appends a legacy completion.
func appendCompletion(dst []byte, asked chat.Asked, a *chat.Answer) []byte {
	dst = appendHead(dst, a.ID, "text_completion", created(asked, a.Created))
	for i := range a.Choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		c, offset := &a.Choices[i], 0
		dst = appendChoice(dst, i, c.Text, appendLogprobs(nil, c.Logprobs, &offset), c.FinishReason)
	}
	dst = append(dst, ']')
	if !a.Usage.IsZero() {
		dst = a.Usage.AppendJSON(append(dst, `,"usage":`...))
	}
	return append(dst, '}')
}

// appendChoice appends one choice. Absent logprobs and an absent reason become null.
func appendChoice(dst []byte, index int, text string, logprobs []byte, reason string) []byte {
	dst = openai.AppendString(append(dst, `{"text":`...), text)
	dst = strconv.AppendInt(append(dst, `,"index":`...), int64(index), 10)
	dst = append(dst, `,"logprobs":`...)
	if logprobs == nil {
		dst = append(dst, "null"...)
	}
	dst = append(append(dst, logprobs...), `,"finish_reason":`...)
	if reason == "" {
		return append(dst, "null}"...)
	}
	return append(openai.AppendString(dst, reason), '}')
}

// appendLogprobs converts the log probabilities of a chat completion's choice to the format of completions. It appends
// nothing if there are none. Offset is the offset of the next token in the text, in characters; it is advanced.
func appendLogprobs(dst, chat []byte, offset *int) []byte {
	content := gjson.GetBytes(chat, "content")
	if !content.IsArray() {
		return dst
	}
	var tokens, values, top, offsets []byte
	content.ForEach(func(_, token gjson.Result) bool {
		if tokens != nil {
			tokens, values, top, offsets = append(tokens, ','), append(values, ','), append(top, ','), append(offsets, ',')
		}
		text := token.Get("token").Str
		tokens = openai.AppendString(tokens, text)
		values = appendNumber(values, token.Get("logprob"))
		top = appendAlternatives(top, token.Get("top_logprobs"))
		offsets = strconv.AppendInt(offsets, int64(*offset), 10)
		*offset += utf8.RuneCountInString(text)
		return true
	})
	dst = append(append(dst, `{"tokens":[`...), tokens...)
	dst = append(append(dst, `],"token_logprobs":[`...), values...)
	dst = append(append(dst, `],"top_logprobs":[`...), top...)
	dst = append(append(dst, `],"text_offset":[`...), offsets...)
	return append(dst, "]}"...)
}

// appendAlternatives appends the likeliest tokens at one position as an object. Tokens with the same text, such as
// parts of a rune, are written once.
func appendAlternatives(dst []byte, list gjson.Result) []byte {
	dst = append(dst, '{')
	seen := map[string]bool{}
	list.ForEach(func(_, t gjson.Result) bool {
		text := t.Get("token").Str
		if seen[text] {
			return true
		}
		if len(seen) > 0 {
			dst = append(dst, ',')
		}
		seen[text] = true
		dst = appendNumber(append(openai.AppendString(dst, text), ':'), t.Get("logprob"))
		return true
	})
	return append(dst, '}')
}

func appendNumber(dst []byte, n gjson.Result) []byte {
	if n.Type != gjson.Number {
		return append(dst, "null"...)
	}
	return append(dst, n.Raw...)
}
