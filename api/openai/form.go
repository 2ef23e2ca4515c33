package openai

import (
	"bytes"
	"mime"
	"strings"
)

// maxBoundary bounds the boundary of a form (RFC 2046, section 5.1.1).
const maxBoundary = 70

// findField returns where the value of a form's only field of a name stands. What cannot be read for certain is an error:
// a provider that reads it otherwise would take another model than the one that the key was checked for.
func findField(body []byte, boundary, name string) (start, end int, err error) {
	if boundary == "" || len(boundary) > maxBoundary {
		return 0, 0, badForm("its content-type has no boundary of 1 to 70 characters")
	}
	mark := []byte("--" + boundary)
	d, ok := nextDelimiter(body, mark, 0)
	if !ok {
		return 0, 0, badForm("the boundary of its content-type is not in it")
	}
	found := false
	for !d.last {
		next, ok := nextDelimiter(body, mark, d.after)
		if !ok {
			return 0, 0, badForm("it ends before its last boundary")
		}
		header, value, ok := partHeader(body[d.after:max(d.after, next.before)])
		if !ok {
			return 0, 0, badForm("a part has no content-disposition that can be read")
		}
		if header["name"] == name {
			if _, file := header["filename"]; found || file {
				return 0, 0, BadRequest(name, "duplicate_parameter", "Send '%s' once, as a field and not as a file.", name)
			}
			start, end, found = d.after+value, next.before, true
		}
		d = next
	}
	if !found {
		return 0, 0, missing(name)
	}
	return start, end, nil
}

// A delimiter is a line that separates the parts of a form, with the line break before it, which belongs to it (RFC 2046,
// section 5.1.1).
type delimiter struct {
	before, after int // where the part before it ends, and the part after it begins
	last          bool
}

// nextDelimiter finds the first delimiter in body from a byte on, which begins a line. A mark within a line, or that goes
// on as another boundary would, is a part's own.
func nextDelimiter(body, mark []byte, from int) (delimiter, bool) {
	for at := from; ; {
		i := bytes.Index(body[at:], mark)
		if i < 0 {
			return delimiter{}, false
		}
		begin := at + i
		at = begin + len(mark)
		if begin > from && body[begin-1] != '\n' {
			continue
		}
		rest := body[at:]
		if bytes.HasPrefix(rest, []byte("--")) {
			return delimiter{before: lineEnd(body, begin), last: true}, true
		}
		padding := len(rest) - len(bytes.TrimLeft(rest, " \t"))
		line := rest[padding:]
		switch {
		case bytes.HasPrefix(line, []byte("\r\n")):
			return delimiter{before: lineEnd(body, begin), after: at + padding + 2}, true
		case bytes.HasPrefix(line, []byte("\n")):
			return delimiter{before: lineEnd(body, begin), after: at + padding + 1}, true
		}
	}
}

// lineEnd returns where the line before the one that begins at begin ends, without its line break.
func lineEnd(body []byte, begin int) int {
	if begin > 0 && body[begin-1] == '\n' {
		begin--
	}
	if begin > 0 && body[begin-1] == '\r' {
		begin--
	}
	return begin
}

// partHeader returns the parameters of a part's content-disposition (RFC 7578, section 4.2), and where its value begins.
func partHeader(part []byte) (params map[string]string, value int, ok bool) {
	for rest := part; ; {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if !found {
			return nil, 0, false
		}
		rest = after
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			return params, len(part) - len(rest), params != nil
		}
		name, text, _ := strings.Cut(string(line), ":")
		if !strings.EqualFold(strings.TrimSpace(name), "content-disposition") {
			continue
		}
		disposition, read, err := mime.ParseMediaType(text)
		if err != nil || disposition != "form-data" || params != nil {
			return nil, 0, false
		}
		params = read
	}
}

func badForm(why string) *Error {
	return BadRequest("", "invalid_form", "We could not read the form of your request: %s.", why)
}
