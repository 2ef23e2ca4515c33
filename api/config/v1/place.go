package configv1

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// A place is the position of a document in a YAML stream. Details are read again from the stream on demand.
type place struct {
	file    string
	part    *yamlPart
	element int // index in a list of documents, or -1
}

// Place returns "file:line:column" of a field, or of the innermost written field around it. It returns "" if the
// document did not come from a file.
func (d Document) Place(field string) string { return d.at.of(field) }

func (p *place) of(field string) string {
	if p == nil {
		return ""
	}
	root := p.part.root()
	if root == nil {
		return p.line(p.part.line, 1)
	}
	at := root
	if p.element >= 0 && p.element < len(root.Content) {
		at = root.Content[p.element]
	}
	for _, name := range strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		inner := within(at, name)
		if inner == nil {
			break
		}
		at = inner
	}
	if under := p.part.name[at]; under != nil {
		at = under
	}
	column := at.Column
	if at.Line == 1 {
		column += p.part.shift
	}
	return p.line(p.part.line+at.Line-1, column)
}

func (p *place) line(line, column int) string { return fmt.Sprintf("%s:%d:%d", p.file, line, column) }

// ofMessage returns the place in a message of the YAML reader. The message has no column, so the place is the
// line's first letter.
func (p *place) ofMessage(message string) string {
	found := lineNumber.FindStringSubmatch(message)
	if found == nil {
		return p.line(p.part.line, 1)
	}
	n, err := strconv.Atoi(found[1])
	lines := bytes.Split(p.part.text, []byte("\n"))
	if err != nil || n < 1 || n > len(lines) {
		return p.line(p.part.line, 1)
	}
	text := lines[n-1]
	return p.line(p.part.line+n-1, 1+len(text)-len(bytes.TrimLeft(text, " ")))
}

// root returns the first node of the part, or nil if it cannot be read.
func (p *yamlPart) root() *yamlv3.Node {
	if p.name == nil {
		p.name = map[*yamlv3.Node]*yamlv3.Node{}
		var document yamlv3.Node
		if err := yamlv3.Unmarshal(p.text, &document); err == nil && len(document.Content) == 1 {
			p.first = document.Content[0]
			p.indexNames(p.first)
		}
	}
	return p.first
}

// indexNames stores the name nodes of members by their values.
func (p *yamlPart) indexNames(n *yamlv3.Node) {
	for i, inner := range n.Content {
		if n.Kind == yamlv3.MappingNode && i%2 == 1 {
			p.name[inner] = n.Content[i-1]
		}
		p.indexNames(inner)
	}
}

// within returns a member of a mapping, in either spelling, or an element of a list, or nil.
func within(n *yamlv3.Node, name string) *yamlv3.Node {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	switch n.Kind {
	case yamlv3.MappingNode:
		for i := len(n.Content) - 2; i >= 0; i -= 2 {
			if plain(n.Content[i].Value) == plain(name) {
				return n.Content[i+1]
			}
		}
	case yamlv3.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	}
	return nil
}
