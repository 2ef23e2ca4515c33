package openai

import (
	"bytes"
	"errors"
	"slices"
)

// A NativeRequest is a request to an operation that providers serve as OpenAI does, such as an upload of audio. It is
// forwarded unchanged except for the model's name. It is immutable and safe for concurrent use.
type NativeRequest struct {
	Model string

	members    *Members // nil: it is a form
	body       []byte
	start, end int    // body[start:end] is the model's name
	quoted     bool   // in JSON; otherwise in a form
	boundary   string // of a form
}

// ParseNativeRequest reads the model of body, a JSON object. It keeps body. An error is an *Error with status 400.
func ParseNativeRequest(body []byte) (*NativeRequest, error) {
	o := &Object{Members: Members{Body: body}}
	model := ""
	err := o.read(func(c *cursor, name string) error {
		switch k := c.peek(); {
		case k != 'n' && (name == "n" || name == "max_tool_calls" || name == "max_output_tokens"):
			return integer(1, maxInteger)(name, c)
		case name != "model" || k == 'n':
			c.value()
		case k != '"':
			return WrongType(name, "a string", k)
		default:
			model = string(c.str())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := o.checkModel(model); err != nil {
		return nil, err
	}
	m := o.members[o.find("model")]
	return &NativeRequest{Model: model, members: &o.Members, body: body, start: m.start, end: m.end, quoted: true}, nil
}

// ParseFormRequest reads the model of body, a form with content type multipart/form-data and the boundary of that
// type. It keeps body. An error is an *Error with status 400.
func ParseFormRequest(body []byte, boundary string) (*NativeRequest, error) {
	start, end, err := findField(body, boundary, "model")
	if err != nil {
		return nil, err
	}
	for _, name := range countedFields {
		if err := checkOnceInForm(body, boundary, name); err != nil {
			return nil, err
		}
	}
	r := &NativeRequest{Model: string(body[start:end]), body: body, start: start, end: end, boundary: boundary}
	if err := checkModelName(r.Model); err != nil {
		return nil, err
	}
	return r, r.checkNumber()
}

// Members returns the members of a JSON object. A form has none.
func (r *NativeRequest) Members() *Members { return r.members }

// checkNumber returns an error if the form's n is not only digits: vendors may read " 5", "+5" or "05" as different
// numbers.
func (r *NativeRequest) checkNumber() error {
	start, end, err := findField(r.body, r.boundary, "n")
	v, given := r.body[start:end], err == nil
	if !given {
		return nil
	}
	if len(v) == 0 || len(v) > len("9007199254740991") || v[0] == '0' ||
		bytes.ContainsFunc(v, func(c rune) bool { return c < '0' || c > '9' }) {
		return CodeInvalidType.On("n",
			"Invalid type for 'n': expected a positive integer, written with digits alone.")
	}
	return nil
}

// countedFields are the form fields besides the model that determine the price.
var countedFields = [...]string{"n", "user", "service_tier", "size", "quality", "stream"}

// checkOnceInForm returns an error if a form has an ambiguous field, such as one that occurs twice.
func checkOnceInForm(body []byte, boundary, name string) error {
	_, _, err := findField(body, boundary, name)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeMissingRequiredParameter {
		return nil
	}
	return err
}

// Field returns the value of a form's only field with a name, or "" if there is none, or more than one.
func (r *NativeRequest) Field(name string) string {
	start, end, err := findField(r.body, r.boundary, name)
	if err != nil {
		return ""
	}
	return string(r.body[start:end])
}

// Fields calls each with the fields of a form, in order. Files come without their content.
func (r *NativeRequest) Fields(each func(name string, value []byte)) {
	r.Parts(func(name string, file bool, value []byte) {
		if file {
			value = nil
		}
		each(name, value)
	})
}

// Parts calls each with the fields and files of a form, in order.
func (r *NativeRequest) Parts(each func(name string, file bool, value []byte)) {
	mark := []byte("--" + r.boundary)
	d, err := nextDelimiter(r.body, mark, 0)
	for err == nil && d != nil && !d.last { // the form was checked
		var next *delimiter
		if next, err = nextDelimiter(r.body, mark, d.after); next == nil {
			return
		}
		part := r.body[d.after:max(d.after, next.before)]
		if h, value, ok := partHeader(part); ok {
			each(h.name, h.file, part[value:])
		}
		d = next
	}
}

// WithModel returns the body with another model and every other byte unchanged. The result may be the client's own
// memory.
func (r *NativeRequest) WithModel(model string) []byte {
	if model == r.Model {
		return r.body
	}
	name := []byte(model)
	if r.quoted {
		name = AppendString(nil, model)
	}
	return slices.Concat(r.body[:r.start], name, r.body[r.end:])
}
