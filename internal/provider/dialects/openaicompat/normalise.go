package openaicompat

import (
	"cmp"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// A normaliser writes one whole answer as OpenAI's clients expect it.
type normaliser struct {
	*answer
	reading
	by openai.Carrier
	id string // JSON

	found     []byte // what a search has found, as annotations
	annotated int    // bytes of annotations written so far
	tells     bool   // the answer's parts are sent apart
}

// maxAnnotated bounds the annotations of an answer, in bytes: a vendor tells once what every choice repeats.
const maxAnnotated = 16 << 20

// appendAnswer appends the answer. It fails if all that the vendor says is that its model has failed.
func (n *normaliser) appendAnswer(dst []byte, model string, created int64) ([]byte, error) {
	n.id = idOf(&n.reading, n.shape)
	dst = append(append(dst, `{"id":`...), n.id...)
	dst = append(append(dst, `,"object":`...), n.shape.whole...)
	dst = append(append(dst, `,"created":`...), createdOf(&n.reading, created)...)
	dst = openai.AppendString(append(dst, `,"model":`...), model)
	dst = append(dst, `,"choices":[`...)
	i := 0
	for at := range n.reading.choices {
		c := &n.reading.choices[at]
		if c.data == nil {
			continue
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = n.appendChoice(dst, c, i); err != nil {
			return nil, err
		}
		i++
	}
	dst = append(dst, ']')
	if told := n.reported(); told != nil {
		u := readUsage(told)
		dst = appendUsage(append(dst, `,"usage":`...), told, &u)
	}
	return append(n.appendOthers(dst), '}'), nil
}

// appendChoice appends a choice, the i-th.
func (n *normaliser) appendChoice(dst []byte, c *choice, i int) ([]byte, error) {
	reason := n.dialect.finishReason(c.reason)
	switch {
	case kindOf(c.fault) == '{':
		return nil, n.dialect.inBand(c.data)
	case reason == "error":
		return nil, errFinish()
	}
	dst = strconv.AppendInt(append(dst, `{"index":`...), int64(max(0, c.indexOr(i))), 10)
	if n.shape.legacy {
		dst = append(append(dst, `,"text":`...), c.textValue()...)
		reason = settle(reason, false, false)
	} else {
		var calls bool
		dst, calls = n.appendMessage(append(dst, `,"message":`...), &c.said, i)
		reason = settle(reason, calls, c.said.functionCall != nil)
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

// appendMessage appends the message of a choice, and reports whether it makes calls.
func (n *normaliser) appendMessage(dst []byte, s *said, choice int) (_ []byte, calls bool) {
	dst = append(dst, `{"role":"assistant","content":`...)
	dst = append(dst, cmp.Or(string(s.content), "null")...)
	dst = append(append(dst, `,"refusal":`...), cmp.Or(string(s.refusal), "null")...)
	if s.reasoning != nil {
		dst = append(append(dst, `,"reasoning_content":`...), s.reasoning...)
	}
	before := len(dst)
	if dst = n.appendCalls(dst, s, choice); len(dst) > before {
		calls = true
	}
	if n.found == nil && choice == 0 {
		n.found = annotations(n.citations.value(n.data), n.results.value(n.data))
	}
	if found := n.found; found != nil && !s.annotated && n.annotated <= maxAnnotated {
		n.annotated += len(found)
		dst = append(append(dst, `,"annotations":`...), found...)
	}
	return append(s.appendOthers(dst, nil), '}'), calls
}

// appendCalls appends the calls of a message that name what they call, if there are any.
func (n *normaliser) appendCalls(dst []byte, s *said, choice int) []byte {
	before, i := len(dst), 0
	dst = append(dst, `,"tool_calls":[`...)
	var known map[string]bool // ids, if there are several calls
	carried := n.carrier(n.by)
	carried.add(s)
	eachElement(s.calls, func(element []byte) {
		c := readCall(element)
		c.named(n.names)
		if !isText(c.name) && !c.isCustom() {
			return
		}
		if i > 0 {
			dst = append(dst, ',')
			if known[string(c.id)] {
				c.id = nil // another call has it
			}
		}
		if known == nil {
			known = make(map[string]bool)
		}
		if isText(c.id) {
			known[string(c.id)] = true
		}
		dst = c.appendWhole(dst, callID{n.id, choice, i, carried, n.names})
		i++
	})
	if i == 0 {
		return dst[:before]
	}
	return append(dst, ']')
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
func idOf(r *reading, s *shape) string {
	if id := r.id.value(r.data); isText(id) && provider.ID(string(id)) != "" {
		return string(id)
	}
	return quote(newID(s.id))
}

// createdOf returns when an answer was made, as JSON.
func createdOf(r *reading, otherwise int64) string {
	if created := r.created.value(r.data); isInteger(created) {
		return string(created)
	}
	return strconv.FormatInt(otherwise, 10)
}
