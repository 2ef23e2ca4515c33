package turns

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider/forms"
)

// Names renames tools whose names a vendor would refuse, and maps them back to the client's names. It is not safe for
// concurrent use until all names were added.
type Names struct {
	// Form is the form of the vendor's names of tools. The zero value is Identifier's.
	Form forms.Form

	original map[string]string // by the sent name; only of renamed tools
	used     []string          // sent names of calls in the conversation, each once
	seen     map[string]bool   // the set of used
}

// Sent returns the name to send for a tool.
func (n *Names) Sent(name string) string {
	sent := Identifier(name)
	if n.Form != (forms.Form{}) {
		sent = n.Form.Fit(name)
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

// Renames reports whether any name was changed.
func (n *Names) Renames() bool { return n != nil && len(n.original) > 0 }

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
	return forms.Form{Chars: forms.Identifier, Min: 1, Max: 64}.Fit(s)
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
	if v := jsontext.Value(s); jsonwalk.Strict(v) && v.Kind() == '{' {
		return v
	}
	return append(openai.AppendString([]byte(`{"_raw":`), s), '}')
}
