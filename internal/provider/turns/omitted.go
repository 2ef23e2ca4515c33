package turns

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// MaxNoted is the number of names after which further ones may be left out.
const MaxNoted = 32

// Omitted collects the names of parameters that a codec omits from a request.
type Omitted struct {
	Vendor string
	Drops  bool // unsupported parameters are dropped instead of refused
	// Translated means that the client speaks another dialect: wishes are dropped instead of refused.
	Translated bool
	Names      []string
	// Adjusted are the names of changed parameters: see provider.Request.
	Adjusted []string
	// Read is a member that the codec has read although it is not a known one, or empty.
	Read string

	looked, functions bool // whether functions were looked for, and found
}

// wishes are the parameters that say how an answer is made, and not what it must be. Clients of other dialects, such
// as coding agents, send them to every model.
var wishes = []string{"temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty", "verbosity",
	"parallel_tool_calls", "service_tier"}

// IsWish reports whether an answer without a parameter is still what the client asked for.
func IsWish(param string) bool { return slices.Contains(wishes, param) }

// Wishes returns the parameters of a list that are wishes.
func Wishes(params []string) []string {
	return slices.DeleteFunc(slices.Clone(params), func(param string) bool { return !IsWish(param) })
}

// Note adds a parameter's name to a list without duplicates.
func Note(names []string, param string) []string {
	if len(names) < MaxNoted && !slices.Contains(names, param) {
		return append(names, param)
	}
	return names
}

// Drop records that a parameter was dropped.
func (o *Omitted) Drop(param string) { o.Names = Note(o.Names, param) }

// Adjust records that a parameter's value was changed.
func (o *Omitted) Adjust(param string) { o.Adjusted = Note(o.Adjusted, param) }

// Unsupported refuses an unsupported parameter, or records that it was dropped.
func (o *Omitted) Unsupported(param string) error {
	if o.Drops || o.Translated && IsWish(param) {
		o.Drop(param)
		return nil
	}
	return openai.Unsupported(param, o.Vendor)
}

// Ignored records the members of a body that are unknown or do not change the meaning of the answer.
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
