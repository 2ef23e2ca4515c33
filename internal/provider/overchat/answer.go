package overchat

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// answer implements provider.Answer.
type answer struct {
	inner provider.Answer
	echo  string // what every choice begins with
}

// Decode implements provider.Answer.
func (a *answer) Decode(body []byte, model string, created int64) ([]byte, openai.Usage, error) {
	chat, usage, err := a.inner.Decode(body, model, created)
	if err != nil {
		return nil, openai.Usage{}, err
	}
	root := gjson.ParseBytes(chat)
	out := make([]byte, 0, len(chat)+len(a.echo))
	out = appendHead(out, completionID(root.Get("id").Str), root.Get("created").Int(), model)
	first := true
	root.Get("choices").ForEach(func(_, choice gjson.Result) bool {
		if !first {
			out = append(out, ',')
		}
		first = false
		message := choice.Get("message")
		offset := utf8.RuneCountInString(a.echo)
		out = appendChoice(out, choice.Get("index").Int(), a.echo+said(message), appendLogprobs(nil, choice.Get("logprobs"), &offset), finishReason(choice.Get("finish_reason").Str))
		return true
	})
	if first {
		return nil, openai.Usage{}, fmt.Errorf("%w: it has no choices", provider.ErrNotAnAnswer)
	}
	out = append(out, ']')
	if !usage.IsZero() {
		out = usage.AppendJSON(append(out, `,"usage":`...))
	}
	return append(out, '}'), usage, nil
}

// said returns the text of a message or of a delta. A refusal is text as any other to clients of completions; reasoning is
// not for them.
func said(message gjson.Result) string {
	return message.Get("content").Str + message.Get("refusal").Str
}

// finishReason returns a chat completion's finish reason as completions have it. Without tools there are no calls.
func finishReason(reason string) string {
	switch reason {
	case "", "length", "content_filter":
		return reason
	}
	return "stop"
}

func completionID(chatID string) string {
	return "cmpl-" + strings.TrimPrefix(chatID, "chatcmpl-")
}

// appendHead appends a completion up to its choices.
func appendHead(dst []byte, id string, created int64, model string) []byte {
	dst = openai.AppendString(append(dst, `{"id":`...), id)
	dst = append(dst, `,"object":"text_completion","created":`...)
	dst = strconv.AppendInt(dst, created, 10)
	dst = openai.AppendString(append(dst, `,"model":`...), model)
	return append(dst, `,"choices":[`...)
}

// appendChoice appends one choice; logprobs nil and no reason are null.
func appendChoice(dst []byte, index int64, text string, logprobs []byte, reason string) []byte {
	dst = openai.AppendString(append(dst, `{"text":`...), text)
	dst = strconv.AppendInt(append(dst, `,"index":`...), index, 10)
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

// appendLogprobs appends the log probabilities of a chat completion's choice in the shape that completions have, or nothing
// where it has none. Offset is where in the text, in characters, the next token begins; it is moved on.
func appendLogprobs(dst []byte, chat gjson.Result, offset *int) []byte {
	content := chat.Get("content")
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

// appendAlternatives appends the likeliest tokens at one place as an object. A token that stands twice, cut from runes that
// look the same as text, counts once.
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
