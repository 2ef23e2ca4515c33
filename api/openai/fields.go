package openai

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A field is a typed member of an object inside a request. Null is treated as absent.
type field struct {
	name     string
	kind     jsontext.Kind // 't' is a boolean, 0 any kind
	required bool
	inner    func(c *cursor) error // steps over the value, and checks what is in it
}

// A step is one step on the path to the current object: into a member and, if index is not negative, into an element
// of it.
type step struct {
	name  string
	index int
}

// in steps into a member's element, or into the member itself if index is negative.
func (c *cursor) in(name string, index int) {
	if c.path == nil {
		c.path = make([]step, 0, 4)
	}
	c.path = append(c.path, step{name, index})
}

func (c *cursor) out() { c.path = c.path[:len(c.path)-1] }

// where returns the path of a member of the current object, or of the object itself if name is empty.
func (c *cursor) where(name string) string {
	path := ""
	for _, s := range append(c.path[:len(c.path):len(c.path)], step{name, -1}) {
		if path != "" && s.name != "" {
			path += "."
		}
		if path += s.name; s.index >= 0 {
			path += "[" + strconv.Itoa(s.index) + "]"
		}
	}
	return path
}

// markMember marks a request by a member that OpenAI does not have.
func (c *cursor) markMember(name []byte) {
	switch string(name) {
	case "cache_control":
		c.marks |= MarkCacheControl
	case "extra_content":
		c.marks |= MarkExtensions
	}
}

// object steps over the current object, checks the fields, and sets got to their values. An absent field has no value.
func (c *cursor) object(fields []field, got []jsontext.Value) error {
	if k := c.peek(); k != '{' {
		return WrongType(c.where(""), "an object", k)
	}
	before := c.deepest
	c.deepest = 0
	for c.enter(); c.more(); {
		name := c.str()
		i := indexOf(fields, name)
		if i < 0 {
			c.markMember(name)
		}
		k := c.peek()
		if i < 0 || k == 'n' {
			c.value()
			continue
		}
		f := &fields[i]
		if f.kind != 0 && k != f.kind && (f.kind != 't' || k != 'f') {
			return WrongType(c.where(f.name), wanted(f.kind), k)
		}
		start := c.at
		if f.inner == nil || k != '{' {
			c.value()
		} else {
			c.in(f.name, -1)
			if err := f.inner(c); err != nil {
				return err
			}
			c.out()
		}
		got[i] = c.data[start:c.at:c.at]
	}
	c.deepest = max(before, c.deepest+1)
	for i := range fields {
		if fields[i].required && got[i] == nil {
			return missing(c.where(fields[i].name))
		}
	}
	return nil
}

func indexOf(fields []field, name []byte) int {
	for i := range fields {
		if fields[i].name == string(name) {
			return i
		}
	}
	return -1
}

func wanted(kind jsontext.Kind) string {
	switch kind {
	case '0':
		return "a decimal"
	case 't':
		return "a boolean"
	}
	return kindName(kind)
}

// objectOf checks a member of the request that is an object.
func objectOf(check func(c *cursor) error) check {
	return func(param string, c *cursor) error {
		c.in(param, -1)
		defer c.out()
		return check(c)
	}
}

// objectsOf checks a member of the request that is an array of objects.
func objectsOf(check func(c *cursor) error) check {
	return func(param string, c *cursor) error {
		if k := c.peek(); k != '[' {
			return WrongType(param, "an array", k)
		}
		i := 0
		for c.enter(); c.more(); i++ {
			if i == maxElements {
				return tooLong(param, maxElements)
			}
			c.in(param, i)
			if err := check(c); err != nil {
				return err
			}
			c.out()
		}
		return nil
	}
}

// notEmpty returns the error for a required string that is empty.
func (c *cursor) notEmpty(name string, value []byte) error {
	if string(value) != `""` {
		return nil
	}
	param := c.where(name)
	return CodeEmptyString.On(param,
		"Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", param)
}
