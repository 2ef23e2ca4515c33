package turns

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// maxIdentifier is the length that every vendor accepts for a tool's name and a call's id.
const maxIdentifier = 64

// Names renames tools whose names a vendor would refuse, and maps them back to the client's names. The zero value
// accepts names of 1 to 64 letters, digits, dashes and underscores. It is not safe for concurrent use until all names
// were added.
type Names struct {
	// BeginWithLetter requires a letter or an underscore as the first character.
	BeginWithLetter bool

	original map[string]string // by the sent name; only of renamed tools
	used     []string          // sent names of calls in the conversation, each once
	seen     map[string]bool   // the set of used
}

// Sent returns the name to send for a tool.
func (n *Names) Sent(name string) string {
	sent := Identifier(name)
	if n.BeginWithLetter && (sent[0] == '-' || sent[0] >= '0' && sent[0] <= '9') {
		sent = Identifier("_" + name + " ") // the blank makes it different from a tool with that underscore
	}
	if sent != name {
		if n.original == nil {
			n.original = map[string]string{}
		}
		n.original[sent] = name
	}
	return sent
}

// Use returns the name to send for a tool that the conversation calls, and records it.
func (n *Names) Use(name string) string {
	sent := n.Sent(name)
	if !n.seen[sent] {
		if n.seen == nil {
			n.seen = map[string]bool{}
		}
		n.seen[sent] = true
		n.used = append(n.used, sent)
	}
	return sent
}

// Used returns the sent names of the tools that the conversation calls, each once and in order.
func (n *Names) Used() []string { return n.used }

// Client returns the client's name of a tool.
func (n *Names) Client(sent string) string {
	if n != nil {
		if name, ok := n.original[sent]; ok {
			return name
		}
	}
	return sent
}

// Identifier returns s if it has 1 to 64 letters, digits, dashes and underscores. For any other string it returns a
// valid identifier that is stable and unique for the string.
func Identifier(s string) string {
	if isIdentifier(s) {
		return s
	}
	clean := make([]byte, 0, maxIdentifier)
	for _, r := range s {
		switch {
		case len(clean) == maxIdentifier:
		case isIdentifierRune(r):
			clean = append(clean, byte(r))
		default:
			clean = append(clean, '_')
		}
	}
	sum := sha256.Sum256([]byte(s))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return string(clean[:min(len(clean), maxIdentifier-len(suffix))]) + suffix
}

func isIdentifier(s string) bool {
	if s == "" || len(s) > maxIdentifier {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return !isIdentifierRune(r) }) < 0
}

func isIdentifierRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// ID is an Options.ID for vendors that require identifiers as ids, each once in a conversation. Clients may repeat
// ids.
func ID(id string, occurrence int) string {
	if occurrence > 1 {
		id += " again " + strconv.Itoa(occurrence)
	}
	return Identifier(id)
}

// Arguments returns a call's arguments as an object. Any other value is wrapped in an object.
func Arguments(s string) jsontext.Value {
	if strings.TrimSpace(s) == "" {
		return jsontext.Value("{}")
	}
	if v := jsontext.Value(s); v.IsValid() && v.Kind() == '{' {
		return v
	}
	return append(openai.AppendString([]byte(`{"_raw":`), s), '}')
}

// SentNames returns the names, other than its own, under which a vendor may get a tool.
func SentNames(name string) []string {
	if isIdentifier(name) && name[0] != '-' && (name[0] < '0' || name[0] > '9') {
		return nil
	}
	return []string{Identifier(name), Identifier("_" + name + " ")}
}
