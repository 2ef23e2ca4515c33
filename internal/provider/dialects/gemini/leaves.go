package gemini

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// A leaf is a value within streamed arguments.
type leaf struct {
	at    string   // the vendor's path to it
	path  []string // its steps: names of members, and places in arrays, which begin with a bracket
	text  []byte   // of a string
	value jsontext.Value
	open  bool // more of the string follows
}

// step returns the step at depth, or nothing where the path ends before it.
func (l *leaf) step(depth int) string {
	if len(l.path) <= depth {
		return ""
	}
	return l.path[depth]
}

// maxPath is how deep streamed arguments may be.
const maxPath = 32

// splitPath reads a JSON path of members and places in arrays, such as $.a.b[0]['c d'], down to maxPath steps. A place
// keeps its bracket.
func splitPath(path string) []string {
	path = strings.TrimPrefix(path, "$")
	var steps []string
	for path != "" && len(steps) < maxPath {
		if strings.HasPrefix(path, "['") || strings.HasPrefix(path, `["`) {
			name, rest, _ := strings.Cut(path[2:], path[1:2]+"]")
			steps, path = append(steps, name), rest
			continue
		}
		if path[0] == '[' {
			place, rest, _ := strings.Cut(path, "]")
			steps, path = append(steps, place), rest
			continue
		}
		path = strings.TrimPrefix(path, ".")
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		steps, path = append(steps, path[:end]), path[end:]
	}
	return steps
}

// appendLeaves appends the value that the leaves make up, whose paths are the same down to depth. The vendor gives
// them in order, so that those of one member follow one another.
func appendLeaves(dst []byte, leaves []leaf, depth int) jsontext.Value {
	if last := &leaves[len(leaves)-1]; len(last.path) <= depth {
		if last.value != nil {
			return append(dst, last.value...)
		}
		return openai.AppendString(dst, string(last.text))
	}
	ends := "{}"
	if strings.HasPrefix(leaves[len(leaves)-1].path[depth], "[") {
		ends = "[]"
	}
	dst = append(dst, ends[0])
	first := len(dst)
	for len(leaves) > 0 {
		n := 1
		for n < len(leaves) && leaves[n].step(depth) == leaves[0].step(depth) {
			n++
		}
		if len(leaves[0].path) > depth {
			if len(dst) > first {
				dst = append(dst, ',')
			}
			if ends == "{}" {
				dst = append(openai.AppendString(dst, leaves[0].path[depth]), ':')
			}
			dst = appendLeaves(dst, leaves[:n], depth+1)
		}
		leaves = leaves[n:]
	}
	return append(dst, ends[1])
}
