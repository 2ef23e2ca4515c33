package turns

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// maxIdentifier is the length of a tool's name, and of a call's id, that every vendor takes.
const maxIdentifier = 64

// Names renames tools whose names a vendor would refuse, and remembers the names by which the client knows them. The
// zero value takes names of 1 to 64 letters, digits, dashes and underscores. It is not safe for concurrent use until
// all names were given to it.
type Names struct {
	// BeginWithLetter demands a letter or an underscore in the first place.
	BeginWithLetter bool

	original map[string]string // by the name that is sent; only of tools that were renamed
	used     []string          // names that are sent, of calls in the conversation, each once
	seen     map[string]bool   // what is in used
}

// Sent returns the name that is sent for a tool.
func (n *Names) Sent(name string) string {
	sent := Identifier(name)
	if n.BeginWithLetter && (sent[0] == '-' || sent[0] >= '0' && sent[0] <= '9') {
		sent = Identifier("_" + name + " ") // the blank makes it differ from a tool that has the underscore itself
	}
	if sent != name {
		if n.original == nil {
			n.original = map[string]string{}
		}
		n.original[sent] = name
	}
	return sent
}

// Use is Sent for a tool that the conversation calls.
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

// Used returns the names, as they are sent, of the tools that the conversation calls, each once and in order.
func (n *Names) Used() []string { return n.used }

// Client returns the name by which the client knows a tool.
func (n *Names) Client(sent string) string {
	if n != nil {
		if name, ok := n.original[sent]; ok {
			return name
		}
	}
	return sent
}

// Identifier returns s where it is 1 to 64 letters, digits, dashes and underscores. Any other string becomes one that
// is, the same each time, and different for different strings.
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

// ID is an Options.ID for vendors that want identifiers as ids, and each once in a conversation, though clients use
// them again.
func ID(id string, occurrence int) string {
	if occurrence > 1 {
		id += " again " + strconv.Itoa(occurrence)
	}
	return Identifier(id)
}

// Arguments returns a call's arguments as the object that vendors want. What is no object is kept within one.
func Arguments(s string) jsontext.Value {
	if strings.TrimSpace(s) == "" {
		return jsontext.Value("{}")
	}
	if v := jsontext.Value(s); v.IsValid() && v.Kind() == '{' {
		return v
	}
	return append(openai.AppendString([]byte(`{"_raw":`), s), '}')
}
