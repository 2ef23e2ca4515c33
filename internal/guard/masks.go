package guard

import (
	"bytes"
	"strconv"
	"strings"
)

// Masks are the placeholders of one exchange, and what they stand for. Equal texts have the same placeholder.
type Masks struct {
	placeholders map[string]string // by text
	texts        map[string]string // by placeholder
	counts       map[string]int    // by label
	longest      int               // placeholder, in bytes
	taken        map[string]bool   // what looks like a placeholder in the request; nil: it is not known yet
}

// maxPlaceholder is the longest text in brackets that may look like a placeholder, in bytes.
const maxPlaceholder = 300

// maxLabel is the longest label of a placeholder, in bytes.
const maxLabel = 200

// take notes what looks like a placeholder already in a body, once.
func (m *Masks) take(body []byte) {
	if m.taken != nil {
		return
	}
	m.taken = map[string]bool{}
	for {
		i := bytes.IndexByte(body, '[')
		if i < 0 {
			return
		}
		body = body[i:]
		if end := bytes.IndexByte(body[:min(len(body), maxPlaceholder)], ']'); end > 1 && isDigit(body[end-1]) {
			m.taken[string(body[:end+1])] = true
		}
		body = body[1:]
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

// restore puts the texts in place of placeholders. Escape, if not nil, writes one for where it stands.
func (m *Masks) restore(text string, escape func(string) string) string {
	if m.IsEmpty() || !strings.Contains(text, "[") {
		return text
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '[')
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:i])
		text = text[i:]
		end := strings.IndexByte(text[:min(len(text), m.longest)], ']') + 1
		original, known := m.texts[text[:end]]
		if !known {
			end, original = 1, "["
		} else if escape != nil {
			original = escape(original)
		}
		b.WriteString(original)
		text = text[end:]
	}
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
