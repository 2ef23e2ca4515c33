package schema

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// References resolves references inside one schema. It reads each object on their paths once, and the total work is in
// proportion to the schema. It is not safe for concurrent use.
type References struct {
	root jsontext.Value
	left int                                 // bytes that may still be read
	read map[*byte]map[string]jsontext.Value // members of objects, by the position of the object
}

// perByte bounds how often each byte is read on average: nested targets are read again with each level.
const perByte = 16

// NewReferences returns the references inside root, which is JSON.
func NewReferences(root jsontext.Value) *References {
	return &References{root: root, left: perByte*len(root) + 64<<10}
}

// Lookup returns the target of a reference, such as #/$defs/a. It returns nil if there is none, or if too much was
// read.
func (r *References) Lookup(ref string) jsontext.Value {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := r.root
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if step == "" {
			continue
		}
		if strings.IndexByte(step, '~') >= 0 {
			step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		}
		if at = r.members(at)[step]; at == nil {
			return nil
		}
	}
	return at
}

func (r *References) members(object jsontext.Value) map[string]jsontext.Value {
	if object.Kind() != '{' {
		return nil
	}
	if members, ok := r.read[&object[0]]; ok {
		return members
	}
	if !r.spend(len(object)) {
		return nil
	}
	all := Members(object)
	members := make(map[string]jsontext.Value, len(all))
	for _, m := range all {
		if _, again := members[m.Name]; !again {
			members[m.Name] = m.Value
		}
	}
	if r.read == nil {
		r.read = map[*byte]map[string]jsontext.Value{}
	}
	r.read[&object[0]] = members
	return members
}

func (r *References) spend(n int) bool {
	r.left -= n
	return r.left >= 0
}

// recursive reports whether a schema contains itself through references, or refers to more than can be read in
// proportion to it.
func recursive(root jsontext.Value) bool {
	next := references(string(root))
	if len(next) == 0 {
		return false
	}
	r := NewReferences(root)
	open := map[string]bool{"#": true, "#/": true} // false: it was followed
	following := []string{"#"}                     // a stack, with the references of each target
	leads := [][]string{next}
	for len(leads) > 0 {
		top := len(leads) - 1
		if len(leads[top]) == 0 {
			open[following[top]] = false
			following, leads = following[:top], leads[:top]
			continue
		}
		ref := leads[top][0]
		leads[top] = leads[top][1:]
		isOpen, seen := open[ref]
		if isOpen {
			return true
		}
		if seen {
			continue
		}
		target := r.Lookup(ref)
		if !r.spend(len(target) + len(ref)) {
			return true
		}
		open[ref] = true
		following, leads = append(following, ref), append(leads, references(string(target)))
	}
	return false
}

// references returns the references in a schema, except for those inside definitions, which count only if they are
// used.
func references(text string) []string {
	var refs []string
	depth, skipped := 0, -1 // the depth of the skipped value
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == skipped {
				skipped = -1
			}
		case '"':
			name := quoted(text[i:])
			i += len(name) - 1
			value := strings.TrimLeft(text[i+1:], " \t\r\n")
			if skipped >= 0 || value == "" || value[0] != ':' {
				continue
			}
			if value = strings.TrimLeft(value[1:], " \t\r\n"); value == "" {
				return refs
			}
			switch isString := value[0] == '"'; gjson.Parse(name).Str {
			case "$ref":
				if isString {
					refs = append(refs, gjson.Parse(quoted(value)).Str)
				}
			case "$defs", "definitions":
				if value[0] == '{' || value[0] == '[' {
					skipped = depth
				}
			}
		}
	}
	return refs
}

// quoted returns the string at the beginning of a JSON text, with its quotes.
func quoted(text string) string {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[:i+1]
		}
	}
	return text
}
