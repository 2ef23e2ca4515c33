// Package params reads the parameters of queries, with OpenAI's errors for those that are wrong.
//
// A parameter that was read is known. Call Unknown after the last one, or what a client has misspelt has no effect.
package params

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/httpapi"
)

const (
	// maxValues bounds how long the lists of a query are.
	maxValues = 100
	// MaxTime is the last time that a query may name, in seconds.
	MaxTime = httpapi.MaxUnix
)

// A Reader reads the parameters of a query, and remembers the first error.
type Reader struct {
	Err    error
	values url.Values
	known  map[string]bool
}

// Of returns a reader of a query.
func Of(query url.Values) *Reader { return &Reader{values: query, known: map[string]bool{}} }

// OfOptions returns a reader of the filters of a list.
func OfOptions(o adminapi.ListOptions) *Reader {
	query := url.Values{}
	for name, value := range o.Filters {
		query.Set(name, value)
	}
	return Of(query)
}

// Fail remembers an error, unless there is one.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
}

// List returns the values of a parameter that is repeated, as name=a&name=b, name[]=a&name[]=b or name[0]=a&name[1]=b.
func (r *Reader) List(name string) []string {
	var keys []string
	for key := range r.values {
		if key == name || strings.HasPrefix(key, name+"[") && strings.HasSuffix(key, "]") {
			keys = append(keys, key)
			r.known[key] = true
		}
	}
	slices.Sort(keys)
	var all []string
	for _, key := range keys {
		all = append(all, r.values[key]...)
	}
	if len(all) > maxValues {
		r.Fail(openai.CodeArrayAboveMaxLength.On(name,
			"Invalid '%s': array too long. Expected an array with maximum length %d, but got an array with length %d instead.",
			name, maxValues, len(all)))
	}
	for i, v := range all {
		if all[i] = sqldb.Text(v); v == "" {
			r.Fail(openai.CodeInvalidValue.On(name, "Invalid value for '%s': it must not be empty.", name))
		}
	}
	return all
}

// Fields reads a list of allowed fields, each at most once.
func (r *Reader) Fields(name string, allowed []string) []string {
	var all []string
	for _, field := range r.List(name) {
		if !slices.Contains(allowed, field) {
			r.Fail(openai.CodeInvalidValue.On(name, "Invalid value: '%s'. Supported values are: '%s'.", field,
				strings.Join(allowed, "', '")))
		} else if !slices.Contains(all, field) {
			all = append(all, field)
		}
	}
	return all
}

// One returns the value of a parameter that is given once, or "".
func (r *Reader) One(name string) string {
	r.known[name] = true
	if len(r.values[name]) > 1 {
		r.Fail(openai.CodeInvalidValue.On(name, "Invalid value for '%s': it must be given once.", name))
	}
	return r.values.Get(name)
}

// Number returns a number between two others, or none if it is not given.
func (r *Reader) Number(name string, none, least, most int64) int64 {
	value := r.One(name)
	if value == "" {
		return none
	}
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
		r.Fail(openai.CodeInvalidType.On(name,
			"Invalid type for '%s': expected an integer, but got '%s' instead.", name, sqldb.Text(value)))
	case n < least:
		r.Fail(openai.CodeIntegerBelowMinValue.On(name,
			"Invalid '%s': integer below minimum value. Expected a value >= %d, but got %d instead.", name, least, n))
	case n > most:
		r.Fail(openai.CodeIntegerAboveMaxValue.On(name,
			"Invalid '%s': integer above maximum value. Expected a value <= %d, but got %d instead.", name, most, n))
	}
	return n
}

// Unix returns a time in seconds, or none if it is not given.
func (r *Reader) Unix(name string, none int64) int64 { return r.Number(name, none, 0, MaxTime) }

// Period returns the time between start and end, which is the last day unless they are given, from the beginning of an
// hour. Call it after the other parameters are read, because it calls Unknown.
func (r *Reader) Period() (from, to time.Time) {
	end := r.Unix("end", time.Now().Unix()+1)
	start := r.Unix("start", max(end-24*60*60, 0))
	if r.Unknown(); r.Err == nil && end <= start {
		r.Fail(openai.CodeInvalidValue.On("end", "Invalid value for 'end': it must be after 'start'."))
	}
	return time.Unix(start, 0).UTC().Truncate(time.Hour), time.Unix(end, 0).UTC()
}

// Boolean returns nil if it is not given.
func (r *Reader) Boolean(name string) *bool {
	var b bool
	switch value := r.One(name); value {
	case "":
		return nil
	case "true", "True", "1": // as Python's SDK and others write it
		b = true
	case "false", "False", "0":
	default:
		r.Fail(openai.CodeInvalidType.On(name,
			"Invalid type for '%s': expected a boolean, but got '%s' instead.", name, sqldb.Text(value)))
	}
	return &b
}

// Unknown fails on a parameter that nobody asked for.
func (r *Reader) Unknown() {
	names := make([]string, 0, len(r.values))
	for name := range r.values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !r.known[name] {
			r.Fail(openai.CodeUnknownParameter.On(sqldb.Text(name), "Unknown parameter: '%s'.", sqldb.Text(name)))
		}
	}
}
