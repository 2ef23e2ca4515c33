package messages

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// readDelta reads the most frequent event, a delta with a piece of text, in a fifth of the time that json.Unmarshal
// takes. It returns false for any other.
func (e *event) readDelta(data []byte) bool {
	known := true
	r := jsonwalk.NewReader(data)
	r.Object(func(name, nameEnd int) {
		switch string(data[name+1 : nameEnd-1]) {
		case "type":
			e.Type = "content_block_delta"
			known = string(r.Value()) == `"content_block_delta"` && known
		case "index":
			n, err := strconv.Atoi(string(r.Value()))
			e.Index, known = n, err == nil && known
		case "delta":
			if r.Kind() != '{' {
				known = false
			}
			r.Object(func(name, nameEnd int) {
				known = e.Delta.take(data[name+1:nameEnd-1], r.Value()) && known
			})
		case "message", "content_block", "usage":
			known = false
			r.Value()
		default:
			r.Value()
		}
	})
	return r.End() && known && e.Type != ""
}

// take takes in a member of a piece of text. It returns false for what is none.
func (d *delta) take(name, value []byte) bool {
	switch string(name) {
	case "type":
		switch string(value) {
		case `"text_delta"`:
			d.Type = "text_delta"
		case `"thinking_delta"`:
			d.Type = "thinking_delta"
		case `"input_json_delta"`:
			d.Type = "input_json_delta"
		default:
			return false
		}
		return true
	case "text":
		if d.Text, d.plain = "", nil; isPlain(value) {
			d.plain = value
			return true
		}
		return unquote(value, &d.Text)
	case "thinking":
		return unquote(value, &d.Thinking)
	case "partial_json":
		return unquote(value, &d.PartialJSON)
	case "signature", "stop_reason", "stop_details", "citation":
		return false
	}
	return true
}

// isPlain reports whether value is a string of valid UTF-8 without escapes.
func isPlain(value []byte) bool {
	return len(value) > 0 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value)
}

// unquote returns false if value is not a string of valid UTF-8.
func unquote(value []byte, to *string) bool {
	if isPlain(value) {
		*to = string(value[1 : len(value)-1])
		return true
	}
	text, err := jsontext.AppendUnquote(nil, value)
	*to = string(text)
	return err == nil
}
