package messages

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxName is the length of a tool's name, and of a call's id, that every vendor of the dialect takes.
const maxName = 64

// toolNames renames tools whose names the vendor would refuse, and remembers the names by which the client knows them.
type toolNames struct {
	original map[string]string // by the name that is sent; only of tools that were renamed
	used     []string          // names that are sent, of calls in the conversation, each once
	seen     map[string]bool   // what is in used
}

// use returns the name that is sent for a tool that the conversation calls.
func (n *toolNames) use(name string) string {
	sent := n.sent(name)
	if !n.seen[sent] {
		if n.seen == nil {
			n.seen = map[string]bool{}
		}
		n.seen[sent] = true
		n.used = append(n.used, sent)
	}
	return sent
}

// sent returns the name that is sent for a tool.
func (n *toolNames) sent(name string) string {
	sent := identifier(name)
	if sent != name {
		if n.original == nil {
			n.original = map[string]string{}
		}
		n.original[sent] = name
	}
	return sent
}

// identifier returns s where it is 1 to 64 letters, digits, dashes and underscores. Any other string becomes one that
// is, the same each time, and different for different strings.
func identifier(s string) string {
	valid := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	if s != "" && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool { return !valid(r) }) < 0 {
		return s
	}
	clean := strings.Map(func(r rune) rune {
		if valid(r) {
			return r
		}
		return '_'
	}, s)
	sum := sha256.Sum256([]byte(s))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return clean[:min(len(clean), maxName-len(suffix))] + suffix
}

// newID returns the id that is sent for a call. The vendor wants each id once in a conversation, but clients reuse them.
func (c *conversation) newID(id string) string {
	sent := identifier(id)
	if c.ids[id]++; c.ids[id] > 1 {
		sent = identifier(id + " again " + strconv.Itoa(c.ids[id]))
	}
	return sent
}

// legacyID is the id of a function_call, which has none of its own.
func legacyID(name string) string { return "fn:" + name }

// arguments returns a call's arguments as the object that the vendor wants. What is no object is kept within one.
func arguments(s string) jsontext.Value {
	if strings.TrimSpace(s) == "" {
		return jsontext.Value("{}")
	}
	if v := jsontext.Value(s); v.IsValid() && v.Kind() == '{' {
		return v
	}
	raw, err := json.Marshal(map[string]string{"_raw": s}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return jsontext.Value("{}") // a map of strings always marshals
	}
	return raw
}
