package openaicompat

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// answer implements provider.ChatAnswer.
type answer struct {
	dialect *Dialect
	choices int // how many the client asked for
}

// Decode implements provider.ChatAnswer. White space before the object is dropped: DeepSeek keeps connections alive with it.
func (a *answer) Decode(body []byte, model string, created int64) ([]byte, openai.Usage, error) {
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
	for _, member := range []struct {
		at                span
		name, unlessItHas string
	}{
		{m.id, `,"id":`, quote(newID())}, {m.object, `,"object":`, `"chat.completion"`}, {m.created, `,"created":`, strconv.FormatInt(created, 10)},
	} {
		if !member.at.found() {
			p.set(member.at, m.end, member.name, member.unlessItHas)
		}
	}
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
	walkArray(p.data[:list.end], list.start, func(start, end int) {
		if p.data[start] == '{' {
			walk(p.data[:end], start, func(name, nameEnd, start, end int) {
				switch string(p.data[name:nameEnd]) {
				case `"message"`:
					a.correctMessage(p, start, end)
				case `"finish_reason"`:
					a.dialect.correctReason(p, span{start: start, end: end})
				}
			})
		}
	})
}

// correctMessage gives a message content, which clients index.
func (a *answer) correctMessage(p *patch, start, end int) {
	if p.data[start] != '{' {
		return
	}
	empty, has := true, false
	walk(p.data[:end], start, func(name, nameEnd, _, _ int) {
		empty, has = false, has || string(p.data[name:nameEnd]) == `"content"`
	})
	switch {
	case has:
	case empty:
		p.add(edit{from: start + 1, to: start + 1, value: `"content":null`})
	default:
		p.add(edit{from: start + 1, to: start + 1, value: `"content":null,`})
	}
}

// correctReason makes a finish reason one that clients know, and reports whether there is one.
func (d *Dialect) correctReason(p *patch, at span) bool {
	value := at.value(p.data)
	if value[0] != '"' {
		return false
	}
	reason := string(value[1 : len(value)-1])
	if known := d.finishReason(reason); known != reason {
		p.add(edit{from: at.start, to: at.end, value: `"` + known + `"`})
	}
	return true
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

// newID is for vendors that name their answers nothing.
func newID() string { return "chatcmpl-" + rand.Text() }

func quote(s string) string { return string(openai.AppendString(nil, s)) }
