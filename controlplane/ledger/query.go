package ledger

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
)

// A pageQuery asks for one page. Its From and To are the page's.
type pageQuery struct {
	Query
	end time.Time // of the last page
}

// Fields that results can be grouped by, as OpenAI has them, and organization_id, which has a single value at
// OpenAI.
func groupFields(resource string) []string {
	switch resource {
	case "completions":
		return []string{"project_id", "user_id", "api_key_id", "model", "batch", "organization_id"}
	case "embeddings", "moderations", "images", "audio_speeches", "audio_transcriptions":
		return []string{"project_id", "user_id", "api_key_id", "model", "organization_id"}
	case "costs":
		return []string{"project_id", "line_item", "api_key_id", "organization_id"}
	}
	return nil
}

const (
	// maxValues bounds how long the lists of a query are.
	maxValues = 100
	// maxTime is the year 9999, in seconds.
	maxTime = 253402300799
)

// parsePage reads a query as a client wrote it.
func parsePage(resource, rawQuery string, now time.Time) (*pageQuery, error) {
	if groupFields(resource) == nil {
		return nil, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest,
			Message: "There is no usage of '" + resource + "'."}
	}
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, openai.BadRequest("", "The query of the URL cannot be read.")
	}
	r := reader{values: values, known: map[string]bool{}}
	p := &pageQuery{Query: Query{Resource: resource}}
	start, end := r.unix("start_time", -1), r.unix("end_time", now.Unix()+1)
	width, usual, most, err := widthOf(resource, r.one("bucket_width"))
	if err != nil {
		return nil, err
	}
	limit := r.number("limit", int64(usual), 1, int64(most))
	p.Projects, p.Keys = r.list("project_ids"), r.list("api_key_ids")
	if resource != "costs" {
		p.Users, p.Models = r.list("user_ids"), r.list("models")
	}
	if resource == "completions" {
		p.Batch = r.boolean("batch")
	}
	p.GroupBy = r.fields("group_by", groupFields(resource))
	from := r.one("page")
	r.unknown()
	if r.err == nil && start < 0 {
		r.fail(openai.CodeMissingRequiredParameter.On("start_time",
			"Missing required parameter: 'start_time'."))
	}
	if r.err == nil && end <= start {
		r.fail(openai.CodeInvalidValue.On("end_time",
			"Invalid value for 'end_time': it must be after 'start_time'."))
	}
	if r.err != nil {
		return nil, r.err
	}
	p.Width = width
	p.From, p.end = time.Unix(start, 0).UTC().Truncate(width), time.Unix(end-1, 0).UTC().Truncate(width).Add(width)
	if from != "" {
		var ok bool
		if p.From, p.end, ok = decodePage(from, width); !ok {
			return nil, openai.CodeInvalidValue.On("page",
				"Invalid value for 'page': it must be the 'next_page' of an earlier answer.")
		}
	}
	p.To = p.From.Add(time.Duration(limit) * width)
	if p.To.After(p.end) {
		p.To = p.end
	}
	return p, nil
}

// encodePage says where a page begins, and where the last ends: the end of a query without one is not to move while it
// is paged through.
func encodePage(from, end time.Time) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(from.Unix()))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, uint64(end.Unix())))
}

func decodePage(text string, width time.Duration) (from, end time.Time, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 16 {
		return from, end, false
	}
	a, z := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	if a > maxTime || z > maxTime+86400 || a >= z {
		return from, end, false
	}
	from, end = time.Unix(int64(a), 0).UTC(), time.Unix(int64(z), 0).UTC()
	return from, end, from.Equal(from.Truncate(width)) && end.Equal(end.Truncate(width))
}

// A reader reads the parameters of a query, and remembers the first error.
type reader struct {
	values url.Values
	known  map[string]bool
	err    error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// list returns the values of a parameter that is repeated, as name=a&name=b, name[]=a&name[]=b or name[0]=a&name[1]=b.
func (r *reader) list(name string) []string {
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
		r.fail(openai.CodeArrayAboveMaxLength.On(name,
			"Invalid '%s': array too long. Expected an array with maximum length %d, but got an array with length %d instead.",
			name, maxValues, len(all)))
	}
	for i, v := range all {
		if all[i] = text(v); v == "" {
			r.fail(openai.CodeInvalidValue.On(name, "Invalid value for '%s': it must not be empty.", name))
		}
	}
	return all
}

// fields reads a list of allowed fields, each at most once.
func (r *reader) fields(name string, allowed []string) []string {
	var all []string
	for _, field := range r.list(name) {
		if !slices.Contains(allowed, field) {
			r.fail(openai.CodeInvalidValue.On(name, "Invalid value: '%s'. Supported values are: '%s'.", field,
				strings.Join(allowed, "', '")))
		} else if !slices.Contains(all, field) {
			all = append(all, field)
		}
	}
	return all
}

// one returns the value of a parameter that is given once, or "".
func (r *reader) one(name string) string {
	r.known[name] = true
	if len(r.values[name]) > 1 {
		r.fail(openai.CodeInvalidValue.On(name, "Invalid value for '%s': it must be given once.", name))
	}
	return r.values.Get(name)
}

func (r *reader) number(name string, none, least, most int64) int64 {
	value := r.one(name)
	if value == "" {
		return none
	}
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
		r.fail(openai.CodeInvalidType.On(name,
			"Invalid type for '%s': expected an integer, but got '%s' instead.", name, text(value)))
	case n < least:
		r.fail(openai.CodeIntegerBelowMinValue.On(name,
			"Invalid '%s': integer below minimum value. Expected a value >= %d, but got %d instead.", name, least, n))
	case n > most:
		r.fail(openai.CodeIntegerAboveMaxValue.On(name,
			"Invalid '%s': integer above maximum value. Expected a value <= %d, but got %d instead.", name, most, n))
	}
	return n
}

func (r *reader) unix(name string, none int64) int64 { return r.number(name, none, 0, maxTime) }

func (r *reader) boolean(name string) *bool {
	var b bool
	switch value := r.one(name); value {
	case "":
		return nil
	case "true", "True", "1": // as Python's SDK and others write it
		b = true
	case "false", "False", "0":
	default:
		r.fail(openai.CodeInvalidType.On(name,
			"Invalid type for '%s': expected a boolean, but got '%s' instead.", name, text(value)))
	}
	return &b
}

// unknown fails on a parameter that nobody asked for.
func (r *reader) unknown() {
	names := make([]string, 0, len(r.values))
	for name := range r.values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !r.known[name] {
			r.fail(openai.CodeUnknownParameter.On(text(name), "Unknown parameter: '%s'.", text(name)))
		}
	}
}
