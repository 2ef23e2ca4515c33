package rest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/jobsvc/memory"
)

// A reader takes members out of JSON objects and stores the first error.
type reader struct {
	err    error
	absent bool // a member is missing; an error about a wrong type replaces this error, as for chat
}

// Fail refuses the request because of a member, unless there was an earlier error.
func (r *reader) Fail(param string, code openai.Code, format string, args ...any) {
	if r.err == nil {
		r.err = code.On(param, format, args...)
	}
}

// WrongType is Fail for a value of the wrong type. Want describes the right one, such as "a string".
func (r *reader) WrongType(param, want string, v jsontext.Value) {
	if r.err == nil || r.absent {
		r.err, r.absent = openai.WrongType(param, want, v.Kind()), false
	}
}

// An Object is the rest of a JSON object: the members that were not taken yet. A nil Object has no members.
type Object struct {
	*reader
	Path    string // ends with a dot, or is empty
	members map[string]jsontext.Value
}

// ReadObject reads the body of a request, and returns it too. It checks body and content type as the ext_proc service
// does for chat.
func ReadObject(w http.ResponseWriter, r *http.Request, most int64) (*Object, []byte, error) {
	contentType := r.Header.Get("Content-Type")
	if media, _, _ := strings.Cut(contentType, ";"); contentType != "" && !strings.EqualFold(strings.TrimSpace(media),
		typeJSON) {
		return nil, nil, openai.UnsupportedContentType(telemetry.Clip(contentType), typeJSON)
	}
	body, err := httpapi.ReadBodyBy(w, r, most, func(from io.Reader) ([]byte, error) {
		return memory.ReadAll(r.Context(), from, r.ContentLength, most, bodyCopies, false)
	})
	if err != nil {
		return nil, nil, err
	}
	if len(body) == 0 {
		return nil, nil, openai.NoBody("")
	}
	o, err := ParseObject(body)
	return o, body, err
}

// bodyCopies is how often a body is in memory: as it came, by its members, by their parts, and in the result.
const bodyCopies = 4

const typeJSON = "application/json"

// ParseObject parses a body.
func ParseObject(body []byte) (*Object, error) {
	if err := openai.CheckObject(body); err != nil {
		return nil, err
	}
	o := &Object{reader: &reader{}}
	return o, jsonv2.Unmarshal(body, &o.members)
}

// Err returns the first error, an *openai.Error, or nil.
func (r *reader) Err() error { return r.err }

// Take returns a member, unless it is absent or null.
func (o *Object) Take(name string) (jsontext.Value, bool) {
	if o == nil {
		return nil, false
	}
	v, ok := o.members[name]
	delete(o.members, name)
	return v, ok && v.Kind() != 'n'
}

// Has reports whether a member is present and not null, without taking it.
func (o *Object) Has(name string) bool {
	return o != nil && o.members[name] != nil && o.members[name].Kind() != 'n'
}

// Missing is Fail for a missing member.
func (o *Object) Missing(name string) {
	o.absent = o.absent || o.err == nil
	o.Fail(o.Path+name, openai.CodeMissingRequiredParameter, "Missing required parameter: '%s'.", o.Path+name)
}

// Text takes a string of 1 to most characters, or returns "".
func (o *Object) Text(name string, most int) string {
	v, ok := o.Take(name)
	if !ok {
		return ""
	}
	return o.TextOf(o.Path+name, v, 1, most)
}

// Required is Text for a required member.
func (o *Object) Required(name string, most int) string {
	if !o.Has(name) {
		o.Missing(name)
	}
	return o.Text(name, most)
}

// TextOf returns a value that must be a string of least to most characters.
func (r *reader) TextOf(param string, v jsontext.Value, least, most int) string {
	if v.Kind() != '"' {
		r.WrongType(param, "a string", v)
		return ""
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		r.WrongType(param, "a string", v)
	}
	switch n := utf8.RuneCountInString(s); {
	case n < least:
		r.Fail(param, openai.CodeEmptyString,
			"Invalid '%s': empty string. Expected a string with minimum length %d, but got an empty string instead.", param,
			least)
	case n > most:
		r.Fail(param, openai.CodeStringAboveMaxLength,
			"Invalid '%s': string too long. Expected a string with maximum length %d, but got a string with length %d instead.",
			param, most, n)
	}
	return s
}

// OneOf takes a string that must be one of values.
func (o *Object) OneOf(name string, values ...string) string {
	s := o.Required(name, 64)
	if !slices.Contains(values, s) {
		o.unsupported(o.Path+name, s, values)
	}
	return s
}

func (r *reader) unsupported(param, got string, values []string) {
	list := "'" + strings.Join(values, "', '") + "'"
	if last := strings.LastIndex(list, ", "); last > 0 {
		list = list[:last] + " and" + list[last+1:]
	}
	r.Fail(param, openai.CodeInvalidValue, "Invalid value: '%s'. Supported values are: %s.", telemetry.Clip(got), list)
}

// Object takes an object, or returns nil.
func (o *Object) Object(name string) *Object {
	v, ok := o.Take(name)
	if !ok {
		return nil
	}
	return o.ObjectOf(o.Path+name, v)
}

// ObjectOf returns a value that must be an object.
func (r *reader) ObjectOf(param string, v jsontext.Value) *Object {
	inner := &Object{reader: r, Path: param + "."}
	if v.Kind() != '{' {
		r.WrongType(param, "an object", v)
		return inner
	}
	if err := jsonv2.Unmarshal(v, &inner.members); err != nil {
		r.WrongType(param, "an object", v)
	}
	return inner
}

// Array takes an array of at most that many elements.
func (o *Object) Array(name string, most int) []jsontext.Value {
	v, ok := o.Take(name)
	if !ok {
		return nil
	}
	var all []jsontext.Value
	if v.Kind() != '[' || jsonv2.Unmarshal(v, &all) != nil {
		o.WrongType(o.Path+name, "an array", v)
	}
	if len(all) > most {
		o.Fail(o.Path+name, openai.CodeArrayAboveMaxLength,
			"Invalid '%s': array too long. Expected an array with maximum length %d, but got an array with length %d instead.",
			o.Path+name, most, len(all))
		return nil
	}
	return all
}

// Done refuses all members that were not taken.
func (o *Object) Done() {
	if o == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		o.Fail(o.Path+name, openai.CodeUnknownParameter, "Unknown parameter: '%s'.", o.Path+name)
	}
}

// A Span is a range of numbers.
type Span struct {
	Low, High float64
	Whole     bool
	Above     bool // Low itself is excluded
}

// Number checks a number and returns it.
func (r *reader) Number(param string, v jsontext.Value, s Span) float64 {
	what, kind, belowCode, aboveCode := "a decimal", "decimal", openai.CodeDecimalBelowMinValue,
		openai.CodeDecimalAboveMaxValue
	if s.Whole {
		what, kind, belowCode, aboveCode = "an integer", "integer", openai.CodeIntegerBelowMinValue,
			openai.CodeIntegerAboveMaxValue
	}
	f, err := strconv.ParseFloat(string(v), 64)
	switch _, notWhole := strconv.ParseInt(string(v), 10, 64); {
	case v.Kind() != '0':
		r.WrongType(param, what, v)
	case s.Whole && notWhole != nil && strings.ContainsAny(string(v), ".eE"):
		r.Fail(param, openai.CodeInvalidType,
			"Invalid type for '%s': expected an integer, but got a decimal number instead.", param)
	case err == nil && (f < s.Low || s.Above && f == s.Low):
		sign := ">="
		if s.Above {
			sign = ">"
		}
		r.Fail(param, belowCode, "Invalid '%s': %s below minimum value. Expected a value %s %s, but got %s instead.", param,
			kind, sign, digits(s.Low), v)
	case err != nil || f > s.High:
		r.Fail(param, aboveCode, "Invalid '%s': %s above maximum value. Expected a value <= %s, but got %s instead.", param,
			kind, digits(s.High), v)
	}
	return f
}

// RequiredNumber takes a required number.
func (o *Object) RequiredNumber(name string, s Span) float64 {
	v, ok := o.Take(name)
	if !ok {
		o.Missing(name)
		return 0
	}
	return o.Number(o.Path+name, v, s)
}

func digits(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Metadata takes OpenAI's metadata, or returns nil.
func (o *Object) Metadata() map[string]string {
	m := o.Object("metadata")
	if m == nil {
		return nil
	}
	if n := len(m.members); n > configv1.MaxMetadata {
		o.Fail("metadata", openai.CodeObjectAboveMaxProperties,
			"Invalid 'metadata': too many properties. Expected an object with at most %d properties, but got an object with %d properties instead.", configv1.MaxMetadata, n)
	}
	pairs := make(map[string]string, len(m.members))
	for _, key := range slices.Sorted(maps.Keys(m.members)) {
		if n := utf8.RuneCountInString(key); n > configv1.MaxMetadataKey {
			o.Fail("metadata", openai.CodePropertyNameAboveMaxLength,
				"Invalid property name in 'metadata': too long. Expected a string with maximum length %d, but got a string with length %d instead.", configv1.MaxMetadataKey, n)
		}
		pairs[key] = o.TextOf(fmt.Sprintf("metadata.%s", key), m.members[key], 0, configv1.MaxMetadataValue)
	}
	return pairs
}

// Bool returns a value that must be true or false.
func (r *reader) Bool(param string, v jsontext.Value) bool {
	if k := v.Kind(); k != 't' && k != 'f' {
		r.WrongType(param, "a boolean", v)
	}
	return v.Kind() == 't'
}

// Rest returns the members that were not taken. They must not be modified.
func (o *Object) Rest() map[string]jsontext.Value { return o.members }
