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
	Last       bool // no other vendor can be asked
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

// needs are parameters without which an answer is another one: longer, or a text in place of a call. Clients of other
// dialects send them to every model, too, and can go on with what they get. So a vendor that does not take them is
// asked without them, but only if no other can be.
var needs = []string{"stop", "tool_choice"}

// IsNeed reports whether a parameter is left out only if no other vendor can be asked.
func IsNeed(param string) bool { return slices.Contains(needs, param) }

// IsWish reports whether a parameter of another dialect's client is left out for a vendor that does not take it. Last
// means that no other vendor can be asked.
func IsWish(param string, last bool) bool {
	return slices.Contains(wishes, param) || last && IsNeed(param)
}

// Wishes returns the parameters of a list that a client of another dialect may have to do without.
func Wishes(params []string) []string {
	return slices.DeleteFunc(slices.Clone(params), func(param string) bool { return !IsWish(param, true) })
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
	if o.Drops || o.Translated && IsWish(param, o.Last) {
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
