package openai

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// An Object is a JSON object with the positions of its top-level members, so that some can be replaced and every other
// byte stays unchanged.
type Object struct {
	Members
	walk cursor // of read
	deviations
}

// An Edit sets a top-level member to a JSON value, or removes it if Value is nil.
type Edit struct {
	Name  string
	Value []byte
}

// Edit returns a copy of the body with the edits applied. New members are added at the end.
func (o *Object) Edit(edits ...Edit) []byte {
	size := len(o.Body)
	for _, e := range edits {
		size += len(e.Name) + len(e.Value) + len(`,"":`)
	}
	out := make([]byte, 0, size)
	from, kept := 0, 0 // the next byte of Body to copy; the end of the last kept member in out
	for i, m := range o.members {
		e := findEdit(edits, m.name)
		switch {
		case e == nil:
			out, from = append(out, o.Body[from:m.end]...), m.end
			kept = len(out)
		case e.Value != nil:
			out, from = append(append(out, o.Body[from:m.start]...), e.Value...), m.end
			kept = len(out)
		case i+1 < len(o.members):
			out, from = append(out, o.Body[from:m.nameStart]...), o.members[i+1].nameStart
		case kept > 0:
			out, from = out[:kept], m.end // with the comma before it
		default:
			out, from = append(out, o.Body[from:m.nameStart]...), m.end
		}
	}
	closing := bytes.LastIndexByte(o.Body, '}')
	out = append(out, o.Body[from:closing]...)
	for _, e := range edits {
		if e.Value == nil || o.Has(e.Name) {
			continue
		}
		if kept > 0 {
			out = append(out, ',')
		}
		out = append(append(AppendString(out, e.Name), ':'), e.Value...)
		kept = len(out)
	}
	return append(out, o.Body[closing:]...)
}

func findEdit(edits []Edit, name string) *Edit {
	for i := range edits {
		if edits[i].Name == name {
			return &edits[i]
		}
	}
	return nil
}

// read checks the syntax of the body, and records the position of each member. The function member steps over a value
// and checks it.
func (o *Object) read(member func(c *cursor, name string) error) error {
	if err := checkMembers(o.Body); err != nil {
		return err
	}
	if !jsonwalk.Strict(o.Body) {
		return invalid(o.Body)
	}
	c := &o.walk
	c.data = o.Body
	if c.peek() != '{' {
		return errNoObject()
	}
	o.members = o.few[:0]
	for c.enter(); c.more(); {
		m := memberSpan{nameStart: c.at}
		m.name = intern(c.str())
		c.peek()
		m.start = c.at
		if err := member(c, m.name); err != nil {
			return err
		}
		switch m.end = c.at; {
		case c.deepest > maxDepth:
			return tooDeep(m.name)
		case len(o.members) == maxOwnMembers:
			return tooManyOwnMembers()
		}
		o.members = append(o.members, m)
	}
	o.deviations = c.deviations
	return nil
}

// CheckObject checks the body of a request: it must be one JSON object, within the bounds of a request, without
// duplicate names. An error is an *Error with status 400.
func CheckObject(body []byte) error {
	_, err := CheckMembers(body)
	return err
}

// CheckMembers is CheckObject, and returns the members.
func CheckMembers(body []byte) (*Members, error) {
	o := &Object{Members: Members{Body: body}}
	err := o.read(func(c *cursor, _ string) error {
		c.value()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &o.Members, nil
}

// invalid returns the error for a body that is not valid JSON, or not only an object.
func invalid(body []byte) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	v, err := dec.ReadValue()
	switch {
	case err != nil:
		return notJSON(err)
	case v.Kind() != '{':
		return errNoObject()
	}
	rest := bytes.TrimLeft(body[dec.InputOffset():], " \t\r\n")
	return CodeInvalidJSON.New(
		"We could not parse the JSON body of your request: there is more after its end, at byte %d.", len(body)-len(rest))
}

func errNoObject() error {
	return CodeInvalidType.New("The JSON body of your request must be an object.")
}

// present returns a member's value, or nil if it is absent or null.
func (o *Object) present(name string) jsontext.Value {
	if v := o.Get(name); v != nil && v.Kind() != 'n' {
		return v
	}
	return nil
}

// maxModelName bounds a model's name in bytes. It is matched against patterns, and written in errors and logs.
const maxModelName = 256

// checkModel checks the value of the member model.
func (o *Object) checkModel(model string) error {
	if o.present("model") == nil {
		return missing("model")
	}
	return checkModelName(model)
}

func checkModelName(model string) error {
	switch {
	case strings.TrimSpace(model) == "":
		return CodeInvalidValue.On("model", "Invalid 'model': it is empty. Name a model, such as 'openai/gpt-4o'.")
	case len(model) > maxModelName:
		return CodeStringAboveMaxLength.On("model",
			"Invalid 'model': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", maxModelName, len(model))
	}
	return nil
}

func readStreamOptions(c *cursor, includeUsage *bool) error {
	for c.enter(); c.more(); {
		if string(c.str()) != "include_usage" || c.peek() == 'n' {
			c.value()
			continue
		}
		*includeUsage = c.peek() == 't'
		if err := boolean("stream_options.include_usage", c); err != nil {
			return err
		}
	}
	return nil
}

// checkStreamOptions reports stream options without a stream as a deviation.
func (o *Object) checkStreamOptions(stream bool) error {
	if stream || o.present("stream_options") == nil {
		return nil
	}
	return o.addDeviation("stream_options", func() *Error {
		return CodeInvalidValue.On("stream_options",
			"The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	})
}
