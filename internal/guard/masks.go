package guard

import (
	"strconv"
	"strings"
)

// Masks are the placeholders of one exchange, and what they stand for. Equal texts have the same placeholder.
type Masks struct {
	placeholders map[string]string // by text
	texts        map[string]string // by placeholder
	counts       map[string]int    // by label
	taken        string            // a text in which no placeholder may be already
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
	for p == "" || strings.Contains(m.taken, p) {
		m.counts[label]++
		p = "[" + label + "_" + strconv.Itoa(m.counts[label]) + "]"
	}
	m.placeholders[text], m.texts[p] = p, text
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
		end := strings.IndexByte(text, ']') + 1
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

// begins reports whether a text may be the beginning of a placeholder.
func (m *Masks) begins(text string) bool {
	for p := range m.texts {
		if len(text) < len(p) && strings.HasPrefix(p, text) {
			return true
		}
	}
	return false
}
