package openaicompat

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
)

// A normaliser writes one whole answer as OpenAI's clients expect it.
type normaliser struct {
	*answer
	data    []byte
	members members
	id      string // JSON
}

// appendAnswer appends the answer. It fails where all that the vendor says is that its model has failed.
func (n *normaliser) appendAnswer(dst []byte, model string, created int64) ([]byte, error) {
	data, m := n.data, n.members
	n.id = idOf(data, m, n.shape)
	dst = append(append(dst, `{"id":`...), n.id...)
	dst = append(append(dst, `,"object":`...), n.shape.whole...)
	dst = append(append(dst, `,"created":`...), createdOf(data, m, created)...)
	dst = openai.AppendString(append(dst, `,"model":`...), model)
	dst = append(dst, `,"choices":[`...)
	i := 0
	var failed error
	eachElement(m.choices.value(data), func(choice []byte) {
		if kindOf(choice) != '{' || failed != nil {
			return
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, failed = n.appendChoice(dst, choice, i)
		i++
	})
	if failed != nil {
		return nil, failed
	}
	dst = append(dst, ']')
	if u := usageOf(data, m); u != nil {
		dst = appendUsage(append(dst, `,"usage":`...), u)
	}
	return append(appendOthers(dst, data, "id", "object", "created", "model", "choices", "usage", "error"), '}'), nil
}

// appendChoice appends a choice, the i-th.
func (n *normaliser) appendChoice(dst, data []byte, i int) ([]byte, error) {
	c := readChoice(data)
	reason := n.dialect.finishReason(c.reason)
	switch {
	case kindOf(c.fault) == '{':
		return nil, n.dialect.inBand(data)
	case reason == "error":
		return nil, errFinish()
	}
	dst = strconv.AppendInt(append(dst, `{"index":`...), int64(max(0, c.indexOr(i))), 10)
	if n.shape.legacy {
		dst = append(append(dst, `,"text":`...), c.textValue()...)
		reason = settle(reason, false)
	} else {
		s := readSaid(c.message)
		dst = n.appendMessage(append(dst, `,"message":`...), &s, i)
		reason = settle(reason, s.calls != nil)
	}
	dst = append(dst, `,"logprobs":`...)
	if n.shape.legacy && c.logprobs != nil {
		dst = append(dst, c.logprobs...)
	} else {
		dst = appendLogprobs(dst, c.logprobs, nil)
	}
	dst = append(append(append(dst, `,"finish_reason":"`...), reason...), '"')
	return append(c.appendOthers(dst, n.shape), '}'), nil
}

func (n *normaliser) appendMessage(dst []byte, s *said, choice int) []byte {
	dst = append(dst, `{"role":"assistant","content":`...)
	dst = append(dst, cmp.Or(string(s.content), "null")...)
	dst = append(append(dst, `,"refusal":`...), cmp.Or(string(s.refusal), "null")...)
	if s.reasoning != nil {
		dst = append(append(dst, `,"reasoning_content":`...), s.reasoning...)
	}
	if s.calls != nil {
		dst = append(dst, `,"tool_calls":[`...)
		i, from := 0, len(dst)
		var carried *carrier
		if name := n.dialect.Carry; name != "" {
			carried = &carrier{name: name}
			carried.add(s.member(name))
		}
		eachElement(s.calls, func(element []byte) {
			if i > 0 {
				dst = append(dst, ',')
			}
			c := readCall(element)
			if i > 0 && isText(c.id) && bytes.Contains(dst[from:], append([]byte(`{"id":`), c.id...)) {
				c.id = nil // another call has it
			}
			dst = c.appendWhole(dst, callID{n.id, choice, i, carried})
			carried = nil
			i++
		})
		dst = append(dst, ']')
	}
	if found := n.annotations(); found != nil && !s.annotated {
		dst = append(append(dst, `,"annotations":`...), found...)
	}
	return append(s.appendOthers(dst), '}')
}

func (n *normaliser) annotations() []byte {
	return annotations(n.members.citations.value(n.data), n.members.results.value(n.data))
}

// annotations returns what a search has found as OpenAI's annotations of a message, or nil: search_results are objects
// with url and title, citations are URLs.
func annotations(citations, results []byte) []byte {
	out := []byte("[")
	add := func(url, title []byte) {
		if !isText(url) {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, `{"type":"url_citation","url_citation":{"start_index":0,"end_index":0,"url":`...)
		out = append(append(out, url...), `,"title":`...)
		out = append(append(out, title...), `}}`...)
	}
	eachElement(results, func(result []byte) {
		url, title := []byte(nil), []byte(`""`)
		eachMember(result, func(name, value []byte) {
			switch {
			case string(name) == "url":
				url = value
			case string(name) == "title" && kindOf(value) == '"':
				title = value
			}
		})
		add(url, title)
	})
	if len(out) == 1 {
		eachElement(citations, func(url []byte) { add(url, []byte(`""`)) })
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, ']')
}

// idOf returns the id of an answer as JSON.
func idOf(data []byte, m members, s *shape) string {
	if id := m.id.value(data); isText(id) {
		return string(id)
	}
	return quote(newID(s.id))
}

// createdOf returns when an answer was made, as JSON.
func createdOf(data []byte, m members, otherwise int64) string {
	if created := m.created.value(data); isInteger(created) {
		return string(created)
	}
	return strconv.FormatInt(otherwise, 10)
}
