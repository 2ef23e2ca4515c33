package finetuning

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// A reader takes members out of JSON objects and keeps the first thing that is wrong with them.
type reader struct{ err error }

func (r *reader) fail(param, code, format string, args ...any) {
	if r.err == nil {
		r.err = openai.BadRequest(param, code, format, args...)
	}
}

func (r *reader) wrongType(param, want string, v jsontext.Value) {
	r.fail(param, "invalid_type", "Invalid type for '%s': expected %s, but got %s instead.", param, want, kindOf(v))
}

func kindOf(v jsontext.Value) string {
	switch v.Kind() {
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "null"
}

// An object is what has not been taken yet of a JSON object. Nil has no members.
type object struct {
	*reader
	path    string // with a dot at the end, or empty
	members map[string]jsontext.Value
}

// readObject begins to read a body.
func readObject(body []byte) (*object, error) {
	o := &object{reader: &reader{}}
	if err := jsonv2.Unmarshal(body, &o.members); err != nil || o.members == nil {
		return nil, openai.BadRequest("", "invalid_json",
			"We could not parse the JSON body of your request. Send a JSON object, in which no name occurs twice, with content-type application/json.")
	}
	return o, nil
}

// take returns a member, unless it is absent or null.
func (o *object) take(name string) (jsontext.Value, bool) {
	if o == nil {
		return nil, false
	}
	v, ok := o.members[name]
	delete(o.members, name)
	return v, ok && v.Kind() != 'n'
}

// has reports whether a member is there and not null, and leaves it.
func (o *object) has(name string) bool {
	return o != nil && o.members[name] != nil && o.members[name].Kind() != 'n'
}

func (o *object) missing(name string) {
	o.fail(o.path+name, "missing_required_parameter", "Missing required parameter: '%s'.", o.path+name)
}

// text takes a string of 1 to most characters, or returns "".
func (o *object) text(name string, most int) string {
	v, ok := o.take(name)
	if !ok {
		return ""
	}
	return o.textOf(o.path+name, v, 1, most)
}

// required is text of a member that has to be there.
func (o *object) required(name string, most int) string {
	if !o.has(name) {
		o.missing(name)
	}
	return o.text(name, most)
}

func (r *reader) textOf(param string, v jsontext.Value, least, most int) string {
	if v.Kind() != '"' {
		r.wrongType(param, "a string", v)
		return ""
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		r.wrongType(param, "a string", v)
	}
	switch n := utf8.RuneCountInString(s); {
	case n < least:
		r.fail(param, "empty_string", "Invalid '%s': empty string. Expected a string with minimum length %d, but got an empty string instead.", param, least)
	case n > most:
		r.fail(param, "string_above_max_length", "Invalid '%s': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", param, most, n)
	}
	return s
}

// oneOf takes a string that is one of several.
func (o *object) oneOf(name string, values ...string) string {
	s := o.required(name, 64)
	if !slices.Contains(values, s) {
		o.unsupported(o.path+name, s, values)
	}
	return s
}

func (r *reader) unsupported(param, got string, values []string) {
	last := len(values) - 1
	r.fail(param, "invalid_value", "Invalid value: '%s'. Supported values are: '%s' and '%s'.", got, strings.Join(values[:last], "', '"), values[last])
}

// object takes an object, or returns nil.
func (o *object) object(name string) *object {
	v, ok := o.take(name)
	if !ok {
		return nil
	}
	return o.objectOf(o.path+name, v)
}

func (r *reader) objectOf(param string, v jsontext.Value) *object {
	inner := &object{reader: r, path: param + "."}
	if v.Kind() != '{' {
		r.wrongType(param, "an object", v)
		return inner
	}
	if err := jsonv2.Unmarshal(v, &inner.members); err != nil {
		r.wrongType(param, "an object", v)
	}
	return inner
}

// array takes an array of at most so many elements.
func (o *object) array(name string, most int) []jsontext.Value {
	v, ok := o.take(name)
	if !ok {
		return nil
	}
	var all []jsontext.Value
	if v.Kind() != '[' || jsonv2.Unmarshal(v, &all) != nil {
		o.wrongType(o.path+name, "an array", v)
	}
	if len(all) > most {
		o.fail(o.path+name, "array_above_max_length", "Invalid '%s': array too long. Expected an array with maximum length %d, but got an array with length %d instead.",
			o.path+name, most, len(all))
		return nil
	}
	return all
}

// done refuses the members that were not taken.
func (o *object) done() {
	if o == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		o.fail(o.path+name, "unknown_parameter", "Unknown parameter: '%s'.", o.path+name)
	}
}

// A span is what numbers are allowed.
type span struct {
	low, high float64
	whole     bool
	above     bool // low itself is not allowed
}

// number checks a number and returns it.
func (r *reader) number(param string, v jsontext.Value, s span) float64 {
	what, kind := "a number", "decimal"
	if s.whole {
		what, kind = "an integer", "integer"
	}
	f, err := strconv.ParseFloat(string(v), 64)
	switch _, notWhole := strconv.ParseInt(string(v), 10, 64); {
	case v.Kind() != '0':
		r.wrongType(param, what, v)
	case s.whole && notWhole != nil && strings.ContainsAny(string(v), ".eE"):
		r.fail(param, "invalid_type", "Invalid type for '%s': expected an integer, but got a decimal number instead.", param)
	case err == nil && (f < s.low || s.above && f == s.low):
		sign := ">="
		if s.above {
			sign = ">"
		}
		r.fail(param, kind+"_below_min_value", "Invalid '%s': %s below minimum value. Expected a value %s %s, but got %s instead.", param, kind, sign, plain(s.low), v)
	case err != nil || f > s.high:
		r.fail(param, kind+"_above_max_value", "Invalid '%s': %s above maximum value. Expected a value <= %s, but got %s instead.", param, kind, plain(s.high), v)
	}
	return f
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Bounds of metadata.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

// metadata takes OpenAI's metadata, or returns nil.
func (o *object) metadata() map[string]string {
	m := o.object("metadata")
	if m == nil {
		return nil
	}
	if n := len(m.members); n > maxMetadata {
		o.fail("metadata", "object_above_max_properties", "Invalid 'metadata': too many properties. Expected an object with at most %d properties, but got an object with %d properties instead.", maxMetadata, n)
	}
	pairs := make(map[string]string, len(m.members))
	for _, key := range slices.Sorted(maps.Keys(m.members)) {
		if n := utf8.RuneCountInString(key); n > maxMetadataKey {
			o.fail("metadata", "property_name_above_max_length", "Invalid property name in 'metadata': too long. Expected a string with maximum length %d, but got a string with length %d instead.", maxMetadataKey, n)
		}
		pairs[key] = o.textOf(fmt.Sprintf("metadata.%s", key), m.members[key], 0, maxMetadataValue)
	}
	return pairs
}
