package openaicompat

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// answer implements provider.ChatAnswer.
type answer struct {
	dialect *Dialect
	choices int // how many the client asked for
}

// Decode implements provider.ChatAnswer. White space before the object is dropped: DeepSeek keeps connections alive with it.
func (a *answer) Decode(body []byte, model string, _ int64) ([]byte, openai.Usage, error) {
	body = bytes.TrimSpace(body)
	m, ok := scan(body)
	if !ok {
		if v := readError(body); v.message != "" {
			return nil, openai.Usage{}, inBand(body)
		}
		return nil, openai.Usage{}, fmt.Errorf("%w: the body is not a JSON object", provider.ErrNotAnAnswer)
	}
	if isError(body, m) {
		return nil, openai.Usage{}, inBand(body)
	}
	var p patch
	p.reset(body)
	switch list := m.choices.value(body); {
	case len(list) > 0 && list[0] == '[':
		a.correct(&p, m.choices)
	case string(list) == "null":
		p.add(edit{from: m.choices.start, to: m.choices.end, value: "[]"})
	default:
		return nil, openai.Usage{}, fmt.Errorf("%w: the body has no choices", provider.ErrNotAnAnswer)
	}
	p.set(m.model, m.end, `,"model":`, quote(model))
	var usage openai.Usage
	if m.usage.found() {
		usage = readUsage(m.usage.value(body))
	}
	if len(p.edits) > 0 {
		body = p.appendTo(make([]byte, 0, len(body)+len(model)+16))
	}
	return body, usage, nil
}

// correct adds what vendors leave out of choices, and replaces the finish reasons that clients do not know.
func (a *answer) correct(p *patch, list span) {
	gjson.Parse(view(list.value(p.data))).ForEach(func(_, choice gjson.Result) bool {
		message := choice.Get("message")
		if message.IsObject() && len(message.Raw) > len("{}") && !strings.Contains(message.Raw, `"content"`) { // clients index it
			at := list.start + message.Index + 1
			p.add(edit{from: at, to: at, value: `"content":null,`})
		}
		reason := choice.Get("finish_reason")
		if reason.Type != gjson.String {
			return true
		}
		if known := a.dialect.finishReason(reason.Str); known != reason.Str {
			from := list.start + reason.Index
			p.add(edit{from: from, to: from + len(reason.Raw), value: `"` + known + `"`})
		}
		return true
	})
}

// Stream implements provider.ChatAnswer.
func (a *answer) Stream() provider.ChatStream {
	return &stream{dialect: a.dialect, choices: choiceStates{wanted: a.choices}}
}

// isError reports whether an object says that something failed: as OpenAI does, or as vLLM once did.
func isError(data []byte, m members) bool {
	switch string(m.fault.value(data)) {
	case "", "null", "false", `""`:
		return string(m.object.value(data)) == `"error"`
	}
	return true
}

func quote(s string) string { return string(openai.AppendString(nil, s)) }
