package openai

import (
	"bytes"
	"mime"
	"strings"
)

// maxBoundary bounds the boundary of a form (RFC 2046, section 5.1.1).
const maxBoundary = 70

// maxFormLine bounds a line in the header of a part. Names are far shorter, and each line is read for each counted
// field.
const maxFormLine = 4 << 10

// findField returns the position of the value of a form's only field with a name. If the form is ambiguous it returns
// an error, because a provider could read another model than the one that was checked for the key.
func findField(body []byte, boundary, name string) (start, end int, err error) {
	if boundary == "" || len(boundary) > maxBoundary {
		return 0, 0, InvalidForm("its content-type has no boundary of 1 to 70 characters")
	}
	mark := []byte("--" + boundary)
	d, err := nextDelimiter(body, mark, 0)
	if d == nil {
		return 0, 0, orBadForm(err, "the boundary of its content-type is not in it")
	}
	found := false
	for !d.last {
		next, err := nextDelimiter(body, mark, d.after)
		if next == nil {
			return 0, 0, orBadForm(err, "it ends before its last boundary")
		}
		part := body[d.after:max(d.after, next.before)]
		h, value, ok := partHeader(part)
		switch {
		case !ok:
			return 0, 0, InvalidForm("a part has no content-disposition that can be read")
		case h.name != name:
		case found || h.file:
			return 0, 0, CodeDuplicateParameter.On(name, "Send '%s' once, as a field and not as a file.", name)
		case h.encoded:
			return 0, 0, InvalidForm("its '" + name + "' has a content-transfer-encoding that changes it; send it as it is")
		default:
			start, end, found = d.after+value, next.before, true
		}
		d = next
	}
	if again, err := nextDelimiter(body, mark, d.after); again != nil || err != nil {
		return 0, 0, InvalidForm("it goes on after its last boundary")
	}
	if !found {
		return 0, 0, missing(name)
	}
	return start, end, nil
}

// A delimiter is a line that separates the parts of a form. It includes the line break before it (RFC 2046, section
// 5.1.1).
type delimiter struct {
	before, after int // the end of the part before it, and the beginning of the next part
	last          bool
}

// nextDelimiter finds the first delimiter in body from an offset, which begins a line, or returns nil. A mark inside a
// line belongs to a part. A line that begins with the mark and continues is ambiguous.
func nextDelimiter(body, mark []byte, from int) (*delimiter, error) {
	for at := from; ; {
		i := bytes.Index(body[at:], mark)
		if i < 0 {
			return nil, nil
		}
		begin := at + i
		at = begin + len(mark)
		if begin > from && body[begin-1] != '\n' {
			continue
		}
		rest, last := bytes.CutPrefix(body[at:], []byte("--"))
		rest = bytes.TrimLeft(rest, " \t")
		end := lineBreak(rest)
		if end == 0 && (!last || len(rest) > 0) {
			return nil, InvalidForm("a line begins as its boundary does, and goes on")
		}
		return &delimiter{before: lineEnd(body, begin), after: len(body) - len(rest) + end, last: last}, nil
	}
}

// lineBreak returns the length of the line break that b begins with, or 0.
func lineBreak(b []byte) int {
	switch {
	case bytes.HasPrefix(b, []byte("\r\n")):
		return 2
	case bytes.HasPrefix(b, []byte("\n")):
		return 1
	}
	return 0
}

// lineEnd returns the end of the line before the one that begins at begin, without its line break.
func lineEnd(body []byte, begin int) int {
	if begin > 0 && body[begin-1] == '\n' {
		begin--
	}
	if begin > 0 && body[begin-1] == '\r' {
		begin--
	}
	return begin
}

// A formHeader is the header of a part.
type formHeader struct {
	name    string
	file    bool // it has a filename
	encoded bool // the value is encoded
}

// partHeader reads the header of a part (RFC 7578, section 4.2), and returns the offset of its value.
func partHeader(part []byte) (h formHeader, value int, ok bool) {
	for rest := part; ; {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if !found || len(line) > maxFormLine {
			return h, 0, false
		}
		rest = after
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			return h, len(part) - len(rest), ok
		}
		name, text, isField := strings.Cut(string(line), ":")
		switch {
		case !isField || strings.TrimSpace(name) != name: // a line that goes on, or not everybody's header
			return h, 0, false
		case strings.EqualFold(name, "content-transfer-encoding"):
			h.encoded = h.encoded || !isIdentity(text)
		case strings.EqualFold(name, "content-disposition"):
			if ok || !h.disposition(text) {
				return h, 0, false
			}
			ok = true
		}
	}
}

// isIdentity reports whether a content-transfer-encoding leaves the value unchanged (RFC 2045, section 6.2).
func isIdentity(encoding string) bool {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "7bit", "8bit", "binary":
		return true
	}
	return false
}

// disposition reads a content-disposition, and reports whether it is unambiguous: an extended name (RFC 8187) is not
// allowed in a form.
func (h *formHeader) disposition(text string) bool {
	disposition, params, err := mime.ParseMediaType(text)
	if err != nil || disposition != "form-data" ||
		strings.Contains(strings.ReplaceAll(strings.ToLower(text), "filename", ""), "name*") {
		return false
	}
	h.name = params["name"]
	_, h.file = params["filename"]
	return true
}

func orBadForm(err error, why string) error {
	if err != nil {
		return err
	}
	return InvalidForm(why)
}
