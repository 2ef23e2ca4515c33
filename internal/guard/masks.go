package guard

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/internal/scan"
)

// Masks are the placeholders of one exchange, and what they stand for. Equal texts have the same placeholder.
type Masks struct {
	placeholders map[string]string // by text
	texts        map[string]string // by placeholder
	counts       map[string]int    // by label
	longest      int               // placeholder, in bytes
	names        map[string]string // the client's names, by the provider's
	taken        map[string]bool   // what looks like a placeholder in the request; nil: it is not known yet
}

// maxPlaceholder is the longest text in brackets that may look like a placeholder, in bytes.
const maxPlaceholder = 300

// maxLabel is the longest label of a placeholder, in bytes.
const maxLabel = 200

// take notes what looks like a placeholder already in a body, once. Each byte of the body is in one of these at most.
func (m *Masks) take(body []byte) {
	if m.taken != nil {
		return
	}
	m.taken = map[string]bool{}
	for i := bytes.IndexByte(body, '['); i >= 0; i = bytes.IndexByte(body, '[') {
		body = body[i:]
		end := 1
		for end < min(len(body), maxPlaceholder) && scan.IsWord(body[end]) {
			end++
		}
		if end < len(body) && body[end] == ']' && isDigit(body[end-1]) {
			m.taken[string(body[:end+1])] = true
		}
		body = body[end:]
	}
}

// IsEmpty reports whether nothing was masked.
func (m *Masks) IsEmpty() bool { return len(m.texts) == 0 }

// mask returns the placeholder of a text.
func (m *Masks) mask(text, label string) string {
	if p := m.placeholders[text]; p != "" {
		return p
	}
	if m.texts == nil {
		m.placeholders, m.texts, m.counts = map[string]string{}, map[string]string{}, map[string]int{}
	}
	var p string
	for p == "" || m.taken[p] {
		m.counts[label]++
		p = "[" + label + "_" + strconv.Itoa(m.counts[label]) + "]"
	}
	m.placeholders[text], m.texts[p], m.longest = p, m.restore(text, nil), max(m.longest, len(p))
	return p
}

// rename returns a name with its masked parts replaced by text that can stand in a name.
func (m *Masks) rename(name string, found []span) string {
	var b strings.Builder
	from := 0
	for _, f := range found {
		b.WriteString(name[from:f.from])
		b.WriteString(strings.Trim(m.mask(name[f.from:f.to], f.label), "[]"))
		from = f.to
	}
	b.WriteString(name[from:])
	if m.names == nil {
		m.names = map[string]string{}
	}
	m.names[b.String()] = name
	return b.String()
}

// restoreName returns the client's name.
func (m *Masks) restoreName(name string) string {
	if own, ok := m.names[name]; ok {
		return own
	}
	return name
}

// restore puts the texts in place of placeholders. Escape, if not nil, gets what stands before a placeholder, and
// writes a text for where it stands. It gets the end of the text with no text.
func (m *Masks) restore(text string, escape func(before, own string) string) string {
	if escape == nil && (m.IsEmpty() || !strings.Contains(text, "[")) {
		return text
	}
	var b strings.Builder
	from := 0 // the beginning of the text that escape has not seen
	for i := 0; ; {
		n := strings.IndexByte(text[i:], '[')
		if n < 0 {
			b.WriteString(text[i:])
			break
		}
		b.WriteString(text[i : i+n])
		i += n
		end := i + strings.IndexByte(text[i:min(len(text), i+m.longest)], ']') + 1
		own, known := m.texts[text[i:end]]
		switch {
		case !known:
			end, own = i+1, "["
		case escape != nil:
			own, from = escape(text[from:i], own), end
		}
		b.WriteString(own)
		i = end
	}
	if escape != nil {
		escape(text[from:], "")
	}
	return b.String()
}

// cuts reports whether a place in a text is within a placeholder.
func (m *Masks) cuts(text string, at int) bool {
	first := max(0, at-m.longest)
	i := strings.LastIndexByte(text[first:at], '[')
	if i < 0 {
		return false
	}
	from := first + i
	end := strings.IndexByte(text[from:min(len(text), from+m.longest)], ']') + 1
	_, known := m.texts[text[from:from+end]]
	return known && at < from+end
}

// begins reports whether a text may be the beginning of a placeholder.
func (m *Masks) begins(text string) bool {
	for label, n := range m.counts {
		start := "[" + label + "_"
		if len(text) <= len(start) {
			if strings.HasPrefix(start, text) {
				return true
			}
			continue
		}
		digits, ok := strings.CutPrefix(text, start)
		if ok && len(digits) <= len(strconv.Itoa(n)) && strings.Trim(digits, "0123456789") == "" {
			return true
		}
	}
	return false
}
