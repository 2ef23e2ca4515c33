package openaicompat

import (
	"strconv"

	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// A reading is what an answer or a chunk of one says, found in one pass. Everything in it is a part of the data. It
// may be used again.
type reading struct {
	members
	data    []byte
	choices []choice // in their order
	others  []span   // of members that the codec does not write itself
}

// read reads an answer, whose choices have a message, or a chunk, whose have a delta. It reports false if data is
// not a JSON object, or has too many choices.
func (r *reading) read(data []byte, said string) bool {
	r.clear()
	if kindOf(data) != '{' {
		return false
	}
	r.data = data
	first, after := true, 0
	at := jsonwalk.NewReader(data)
	at.Object(func(name, nameEnd int) {
		n := data[name+1 : nameEnd-1]
		s := span{first: first, after: after, name: name, start: at.At()}
		if string(n) == "choices" {
			r.readChoices(&at, said)
		} else {
			at.Value()
		}
		s.end = at.At()
		if p := r.find(n); p != nil {
			*p = s
		}
		switch string(n) {
		case "id", "object", "created", "model", "choices", "usage", "error":
		default:
			r.others = append(r.others, s)
		}
		first, after = false, s.end
	})
	if !at.End() || len(r.choices) > maxChoices {
		r.clear()
		return false
	}
	return true
}

// clear forgets the data, but not the space.
func (r *reading) clear() {
	clear(r.choices)
	*r = reading{choices: r.choices[:0], others: r.others[:0]}
}

// reported returns the usage that is reported, or nil: Groq's older streams have it in x_groq, Moonshot's in the
// choice that ends.
func (r *reading) reported() []byte {
	if u := r.usage.value(r.data); kindOf(u) == '{' {
		return u
	}
	var usage []byte
	eachMember(r.groq.value(r.data), func(name, value []byte) {
		if string(name) == "usage" && kindOf(value) == '{' {
			usage = value
		}
	})
	for i := range r.choices {
		if u := r.choices[i].usage; kindOf(u) == '{' {
			usage = u
		}
	}
	return usage
}

// repeated returns how many bytes of the data appendOthers appends.
func (r *reading) repeated() int {
	n := 0
	for _, s := range r.others {
		n += s.end - s.name
	}
	return n
}

// appendOthers appends the members that the codec does not write itself, but for some.
func (r *reading) appendOthers(dst []byte, but ...span) []byte {
	for _, s := range r.others {
		skip := false
		for _, b := range but {
			skip = skip || b.name == s.name && b.found()
		}
		if !skip {
			nameEnd := jsonwalk.String(r.data, s.name)
			dst = appendMember(dst, r.data[s.name+1:nameEnd-1], s.value(r.data))
		}
	}
	return dst
}

// A choice is one of an answer's choices or of a chunk's. Its members are JSON, and nil if they are absent, as is
// all of it if it is no object.
type choice struct {
	data                                 []byte
	index, text, reason, logprobs, fault []byte
	usage                                []byte
	said                                 said
	others                               bool // it has members that the codec does not write itself
}

func (r *reading) readChoices(at *jsonwalk.Reader, said string) {
	if r.choices = r.choices[:0]; at.Kind() != '[' { // of members of the same name the last counts
		at.Value()
		return
	}
	at.Array(func() {
		if len(r.choices) <= maxChoices { // one more, which says that there are too many
			r.choices = append(r.choices, choice{})
		}
		if at.Kind() != '{' || len(r.choices) > maxChoices {
			at.Value()
			return
		}
		r.choices[len(r.choices)-1].read(at, r.data, said)
	})
}

func (c *choice) read(at *jsonwalk.Reader, data []byte, said string) {
	from := at.At()
	at.Object(func(name, nameEnd int) {
		n := data[name+1 : nameEnd-1]
		if string(n) == said {
			c.said.read(at, data)
			return
		}
		value := at.Value()
		switch string(n) {
		case "index":
			c.index = value
		case "text":
			c.text = value
		case "finish_reason":
			c.reason = value
		case "logprobs":
			c.logprobs = value
		case "error":
			c.fault = value
		case "usage":
			c.usage = value
		case "message", "delta": // Perplexity repeats the message beside the delta, and the delta beside the message
		default:
			c.others = true
		}
	})
	c.data = data[from:at.At()]
}

// indexOr returns the choice's index, which vendors may leave out.
func (c *choice) indexOr(position int) int {
	if len(c.index) == 1 && c.index[0] >= '0' && c.index[0] <= '9' {
		return int(c.index[0] - '0')
	}
	f, err := strconv.ParseFloat(string(c.index), 64)
	if err != nil {
		return position
	}
	return int(max(-1, min(f, maxChoices)))
}

// textValue returns the text of a legacy completion as JSON.
func (c *choice) textValue() []byte {
	if kindOf(c.text) == '"' {
		return c.text
	}
	return []byte(`""`)
}

// appendOthers appends the members that are not OpenAI's.
func (c *choice) appendOthers(dst []byte, s *shape) []byte {
	switch {
	case s.legacy:
		return appendOthers(dst, c.data, "index", "text", "finish_reason", "logprobs", "error", "usage")
	case c.others:
		return appendOthers(dst, c.data, "index", "message", "delta", "finish_reason", "logprobs", "error", "usage")
	}
	return dst
}
