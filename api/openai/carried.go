package openai

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// A stock client sends back the text of an assistant's turn, and the id, name and arguments of its calls. Other data
// that a vendor needs again, such as the signature of its thinking, is therefore put into the id of a tool call: the
// vendor's id, the mark, and the data, deflated, in base64url. Codecs get ids without it.

// carriedMark separates a tool call's id from the carried data. No vendor's id contains it.
const carriedMark = "~mg1."

// maxCarried bounds the carried data, in bytes before and after compression.
const maxCarried = 256 << 10

// HasCarried reports whether a body may have an id with data.
func HasCarried(body []byte) bool { return bytes.Contains(body, []byte(carriedMark)) }

// CarryID returns id with data, a JSON value that must come back with the call. Data that is empty or too large is
// omitted.
func CarryID(id string, data []byte) string {
	if len(data) == 0 || len(data) > maxCarried {
		return id
	}
	var b bytes.Buffer
	z := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(z)
	z.Reset(&b)
	_, _ = z.Write(data) // a bytes.Buffer accepts everything
	_ = z.Close()
	return id + carriedMark + base64.RawURLEncoding.EncodeToString(b.Bytes())
}

// deflaters is a pool of writers, because each has tables of a megabyte.
var deflaters = sync.Pool{New: func() any {
	z, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is valid
	return z
}}

// SplitID returns the id and the data of CarryID. If the id carries no valid data, data is nil.
func SplitID(carrying string) (id string, data jsontext.Value) {
	id, data, _ = splitID(carrying, maxCarried)
	return id, data
}

// splitID is SplitID for data of at most limit bytes. It also returns the number of inflated bytes, valid or not.
// Clients can send any id, so the result is always valid JSON.
func splitID(carrying string, limit int) (id string, data jsontext.Value, inflated int) {
	id, text, found := strings.Cut(carrying, carriedMark)
	if !found || limit <= 0 {
		return id, nil, 0
	}
	packed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return id, nil, 0
	}
	z := inflaters.Get().(io.Reader)
	defer inflaters.Put(z)
	_ = z.(flate.Resetter).Reset(bytes.NewReader(packed), nil) // never fails
	data, err = io.ReadAll(io.LimitReader(z, int64(limit)+1))
	if err != nil || len(data) > limit || !data.IsValid() {
		return id, nil, len(data)
	}
	return id, data, len(data)
}

var inflaters = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}

// splitIDs splits the ids of all calls. The size is that of the body: data that is many times as large is not from a
// vendor.
func (c *Chat) splitIDs(size int) {
	left := 4*size + maxCarried
	for i := range c.Messages {
		m := &c.Messages[i]
		m.ToolCallID, _, _ = strings.Cut(m.ToolCallID, carriedMark)
		for j := range m.ToolCalls {
			t := &m.ToolCalls[j]
			var inflated int
			t.ID, t.Carried, inflated = splitID(t.ID, min(left, maxCarried))
			left -= inflated
		}
	}
}

// dropCarried removes carried data from the messages of a body that was checked. Other strings do not change, even if
// a text looks like carried data.
func (r *ChatRequest) dropCarried() {
	if !bytes.Contains(r.Body, []byte(carriedMark[1:])) { // its first byte may be escaped
		return
	}
	messages := r.Get("messages")
	c := &cursor{data: messages}
	var out []byte
	from := 0
	id := func() {
		if c.peek() != '"' {
			c.value()
			return
		}
		start := c.at
		if bare, _, found := strings.Cut(string(c.str()), carriedMark); found {
			out, from = AppendString(append(out, messages[from:start]...), bare), c.at
		}
	}
	for c.enter(); c.more(); {
		for c.enter(); c.more(); {
			switch name := string(c.str()); {
			case name == "tool_call_id":
				id()
			case name == "tool_calls" && c.peek() == '[':
				for c.enter(); c.more(); {
					eachID(c, id)
				}
			default:
				c.value()
			}
		}
	}
	if from > 0 {
		r.replace("messages", append(out, messages[from:]...))
	}
}

// eachID steps over a call, and calls id to step over its id.
func eachID(c *cursor, id func()) {
	for c.enter(); c.more(); {
		if string(c.str()) == "id" {
			id()
		} else {
			c.value()
		}
	}
}

// replace changes the value of an existing member.
func (o *Object) replace(name string, value []byte) {
	i := o.find(name)
	o.members = slices.Clone(o.members)
	m := &o.members[i]
	grown := len(value) - (m.end - m.start)
	o.Body = slices.Concat(o.Body[:m.start], value, o.Body[m.end:])
	m.end += grown
	for i++; i < len(o.members); i++ {
		m := &o.members[i]
		m.nameStart, m.start, m.end = m.nameStart+grown, m.start+grown, m.end+grown
	}
}
