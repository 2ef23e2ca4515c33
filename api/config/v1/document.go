package configv1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

// A Document is one object as it was written, with its place in the file.
type Document struct {
	Kind   Kind
	Object Object
	at     *place // nil if it did not come from a file
}

// Members of a document that are not fields of the object. Status is written by the admin API. It is ignored in input,
// so that an object can be read, edited and applied.
const (
	kindMember   = "kind"
	statusMember = "status"
)

// ParseYAML reads documents separated by "---" lines. Each has its kind and the fields of that message, spelled in
// snake_case or as in protojson. Unknown fields, duplicate fields and values of the wrong type are refused. The error
// is an [Errors] with all errors. Documents that could be read are returned with it. The objects are not validated:
// see [Document.Validate]. Filename is only for messages.
func ParseYAML(filename string, data []byte) ([]Document, error) {
	var docs []Document
	var errs Errors
	for _, part := range splitYAML(data) {
		found, partErrs := parsePart(filename, &part)
		errs, docs = append(errs, partErrs...), append(docs, found...)
	}
	return docs, errs.Err()
}

// parsePart reads one document, or a list of documents, which tools that print JSON write.
func parsePart(filename string, part *yamlPart) ([]Document, Errors) {
	at := &place{file: filename, part: part, element: -1}
	data, err := yaml.YAMLToJSONStrict(part.text)
	if err != nil {
		return nil, Errors{{Source: at.ofMessage(err.Error()), Message: absoluteLines(err.Error(), part.line)}}
	}
	if string(data) == "null" {
		return nil, nil
	}
	tree, err := readTree(data)
	if err != nil {
		return nil, Errors{{Source: at.of(""), Message: err.Error()}}
	}
	return parseTrees(tree, at)
}

// parseTrees reads one document or a list of them. The place at is nil if they are not from a file.
func parseTrees(tree any, at *place) (docs []Document, errs Errors) {
	list, many := tree.([]any)
	if !many {
		list = []any{tree}
	}
	for i, element := range list {
		own := at
		if at != nil && many {
			own = &place{file: at.file, part: at.part, element: i}
		}
		doc, more := parseTree(element, Kind{})
		for _, e := range more {
			e.Source = own.of(e.Field)
			errs = append(errs, e)
		}
		if doc != nil {
			doc.at = own
			docs = append(docs, *doc)
		}
	}
	return docs, errs
}

// ParseJSON reads one document, or an array of them, as [ParseYAML] does. The documents have no place.
func ParseJSON(data []byte) ([]Document, error) {
	tree, err := readTree(data)
	if err != nil {
		return nil, Errors{{Message: err.Error()}}
	}
	docs, errs := parseTrees(tree, nil)
	return docs, errs.Err()
}

// ParseJSON reads one object of the kind. The document may omit its kind. The error is an [Errors].
func (k Kind) ParseJSON(data []byte) (Object, error) {
	tree, err := readTree(data)
	if err != nil {
		return nil, Errors{{Message: err.Error()}}
	}
	doc, errs := parseTree(tree, k)
	if doc == nil || len(errs) > 0 {
		return nil, errs
	}
	return doc.Object, nil
}

// parseTree returns a document, or errors. Want is the only accepted kind, or the zero Kind.
func parseTree(tree any, want Kind) (*Document, Errors) {
	members, ok := tree.(map[string]any)
	if !ok {
		return nil, Errors{{Message: "must be a mapping of fields"}}
	}
	kind, err := kindOfTree(members, want)
	if err != nil {
		return nil, Errors{{Field: kindMember, Message: err.Error()}}
	}
	delete(members, kindMember)
	delete(members, statusMember)
	d := decoder{object: kind.Name}
	if name, ok := members["name"].(string); ok {
		d.object += " " + strconv.Quote(name)
		if isPlain(name) {
			d.object = kind.Name + " " + name
		}
	}
	object := kind.New()
	d.message(object.ProtoReflect(), members, "")
	if len(d.errs) > 0 {
		return nil, d.errs
	}
	return &Document{Kind: kind, Object: object}, nil
}

func kindOfTree(members map[string]any, want Kind) (Kind, error) {
	name, given := members[kindMember]
	if want.Name != "" {
		if given && name != want.Name {
			return Kind{}, fmt.Errorf("must be %s", want.Name)
		}
		return want, nil
	}
	var names []string
	for _, k := range Kinds() {
		if name == k.Name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	written, _ := name.(string)
	return Kind{}, fmt.Errorf("must be one of %s%s", listing(names), didYouMean(written, names))
}

// A yamlPart is one document of a YAML stream, with its first line in the stream, counted from 1.
type yamlPart struct {
	text  []byte
	line  int
	shift int // columns before the first line's text: those of a marker

	// The fields below are set on demand: see root.
	first *yamlv3.Node
	name  map[*yamlv3.Node]*yamlv3.Node // of a value
}

// splitYAML splits a stream at its document markers. A marker is at the beginning of a line. YAML allows no other text
// to look like it, even inside a block of text (YAML 1.2, section 9.1.2).
func splitYAML(data []byte) []yamlPart {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var parts []yamlPart
	var text []byte
	start, line, shift := 1, 0, 0
	flush := func() {
		if content, skipped := trimBlank(text); len(content) > 0 {
			if skipped > 0 {
				shift = 0
			}
			parts = append(parts, yamlPart{text: content, line: start + skipped, shift: shift})
		}
	}
	for l := range bytes.Lines(data) {
		line++
		if !isMarker(l) {
			text = append(text, l...)
			continue
		}
		flush()
		// The rest of the marker's line belongs to the document.
		text, start, shift = append([]byte(nil), l[len("---"):]...), line, len("---")
	}
	flush()
	return parts
}

func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || line[3] == ' ' || line[3] == '\t' || line[3] == '\r' || line[3] == '\n'
}

// trimBlank removes the blank lines and comments at the beginning of a document, and counts them.
func trimBlank(text []byte) (content []byte, skipped int) {
	for line := range bytes.Lines(text) {
		if t := bytes.TrimSpace(line); len(t) > 0 && t[0] != '#' {
			return text, skipped
		}
		text = text[len(line):]
		skipped++
	}
	return nil, skipped
}

// lineNumber matches a line number in the YAML reader's messages.
var lineNumber = regexp.MustCompile(`\bline (\d+)`)

// absoluteLines converts the line numbers in a message from the document's to the file's.
func absoluteLines(message string, first int) string {
	return lineNumber.ReplaceAllStringFunc(message, func(s string) string {
		n, err := strconv.Atoi(s[len("line "):])
		if err != nil {
			return s
		}
		return "line " + strconv.Itoa(n+first-1)
	})
}

// Marshal returns the stored form of an object: compact protojson with the names of the .proto file. Equal objects
// give equal bytes.
func Marshal(o Object) ([]byte, error) {
	spaced, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", Label(o), err)
	}
	// protojson inserts random spaces, so that its output is not compared.
	var compact bytes.Buffer
	if err := json.Compact(&compact, spaced); err != nil {
		return nil, fmt.Errorf("encode %s: %w", Label(o), err)
	}
	return compact.Bytes(), nil
}

// MarshalJSON returns an object as a document: its kind, then its fields. [ParseJSON] reads it back.
func MarshalJSON(o Object) ([]byte, error) {
	fields, err := Marshal(o)
	if err != nil {
		return nil, err
	}
	doc := append([]byte(`{"kind":"`), nameOf(o)...)
	doc = append(doc, '"')
	if len(fields) > len("{}") {
		doc = append(doc, ',')
	}
	return append(doc, fields[1:]...), nil
}

// MarshalYAML returns an object as a YAML document without a marker: its kind, then its fields in the order of the
// .proto file. [ParseYAML] reads it back.
func MarshalYAML(o Object) ([]byte, error) {
	data, err := Marshal(o)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("encode %s: %w", Label(o), err)
	}
	doc := []byte("kind: " + nameOf(o) + "\n")
	for _, name := range fieldNames(o.ProtoReflect().Descriptor().Fields()) {
		value, ok := fields[name]
		if !ok {
			continue
		}
		part, err := yaml.Marshal(map[string]json.RawMessage{name: value})
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", Label(o), err)
		}
		doc = append(doc, part...)
	}
	return doc, nil
}

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
