package turns

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// MaxNoted is how many names are collected at least before the rest goes without a word.
const MaxNoted = 32

// Omitted collects the names of what a codec leaves out of a request.
type Omitted struct {
	Vendor string
	Drops  bool // what the vendor cannot honour is left out instead of refused
	Names  []string
	// Adjusted are the names of what went in another form: see provider.Request.
	Adjusted []string
	// Read is a member that the codec has read though it is not among the known ones, or empty.
	Read string
}

// Note adds a parameter's name to some, each of which is there once.
func Note(names []string, param string) []string {
	if len(names) < MaxNoted && !slices.Contains(names, param) {
		return append(names, param)
	}
	return names
}

// Drop notes that a parameter was left out.
func (o *Omitted) Drop(param string) { o.Names = Note(o.Names, param) }

// Adjust notes that a parameter's value is not as the client sent it.
func (o *Omitted) Adjust(param string) { o.Adjusted = Note(o.Adjusted, param) }

// Unsupported refuses a parameter that the vendor cannot honour, or notes that it was left out.
func (o *Omitted) Unsupported(param string) error {
	if o.Drops {
		o.Drop(param)
		return nil
	}
	return openai.Unsupported(param, o.Vendor)
}

// Ignored notes the members of a body that change nothing of the answer's meaning or that nobody here knows.
func (o *Omitted) Ignored(body []byte, known []string) {
	gjson.ParseBytes(body).ForEach(func(name, v gjson.Result) bool {
		if v.Type == gjson.False || !Asked(jsontext.Value(v.Raw)) || slices.Contains(known, name.Str) || name.Str == o.Read {
			return true
		}
		param := name.Str
		if Identifier(param) != param {
			param = "other" // the names end up in a header
		}
		o.Drop(param)
		return len(o.Names) < MaxNoted
	})
}
