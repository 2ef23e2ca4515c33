package openai

import "github.com/go-json-experiment/json/jsontext"

var functionFields = []field{
	{name: "name", kind: '"', required: true}, {name: "description", kind: '"'}, {name: "parameters", kind: '{'},
	{name: "strict", kind: 't'},
}

// checkFunction checks a description of a function.
func checkFunction(c *cursor) error {
	var got [4]jsontext.Value
	if err := c.object(functionFields, got[:]); err != nil {
		return err
	}
	c.markStrange(got[0])
	return c.notEmpty("name", got[0])
}

var nameFields = []field{{name: "name", kind: '"', required: true}}

// checkNamed checks an object that must have a name.
func checkNamed(c *cursor) error {
	var got [1]jsontext.Value
	if err := c.object(nameFields, got[:]); err != nil {
		return err
	}
	return c.notEmpty("name", got[0])
}

var toolFields = []field{
	{name: "type", kind: '"'}, {name: "function", kind: '{', inner: checkFunction},
	{name: "custom", kind: '{', inner: checkNamed},
}

// checkTool checks a tool. Tools of other types have members of their vendor; Google's have only a member with the
// type's name.
func checkTool(c *cursor) error {
	var got [3]jsontext.Value
	if err := c.object(toolFields, got[:]); err != nil {
		return err
	}
	if got[0] == nil {
		refusal := func() *Error { return missing(c.where("type")) }
		if got[1] != nil || got[2] != nil {
			return refusal()
		}
		return c.addDeviation("tools.type", refusal)
	}
	switch string(got[0]) {
	case `"function"`:
	case `"custom"`:
		c.marks |= MarkCustomTool
	default:
		c.marks |= MarkOtherTool
	}
	return c.ofType(got[0], "function", got[1], "custom", got[2])
}

// ofType checks that an object of one of two types has the member with the type's name.
func (c *cursor) ofType(typ []byte, a string, hasA []byte, b string, hasB []byte) error {
	switch string(typ) {
	case `"` + a + `"`:
		if hasA == nil {
			return missing(c.where(a))
		}
	case `"` + b + `"`:
		if hasB == nil {
			return missing(c.where(b))
		}
	default:
		c.addUnknownWord(func() string { return c.where("type") }, typ, a, b)
	}
	return nil
}

var (
	choiceFields = []field{
		{name: "type", kind: '"'}, {name: "function", kind: '{', inner: checkNamed},
		{name: "custom", kind: '{', inner: checkNamed},
		{name: "allowed_tools", kind: '{', inner: checkAllowed},
	}
	allowedFields = []field{{name: "mode", kind: '"', required: true}, {name: "tools", kind: '[', required: true}}
)

func checkToolChoice(param string, c *cursor) error {
	switch k := c.peek(); k {
	case '{':
		return objectOf(checkChoice)(param, c)
	case '"':
		if s := c.str(); string(s) != "none" && string(s) != "auto" && string(s) != "required" {
			return c.addDeviation(param+":"+string(s), func() *Error {
				return CodeInvalidValue.On(param,
					"Invalid value: '%s'. Supported values are: 'none', 'auto', and 'required', or an object.", s)
			})
		}
		return nil
	default:
		return WrongType(param, "one of 'none', 'auto' and 'required', or an object", k)
	}
}

func checkChoice(c *cursor) error {
	var got [4]jsontext.Value
	if err := c.object(choiceFields, got[:]); err != nil {
		return err
	}
	if got[0] == nil {
		refusal := func() *Error { return missing(c.where("type")) }
		if got[1] == nil { // Hugging Face needs no more
			return refusal()
		}
		return c.addDeviation("tool_choice.type", refusal)
	}
	if string(got[0]) == `"allowed_tools"` {
		if got[3] == nil {
			return missing(c.where("allowed_tools"))
		}
		return nil
	}
	return c.ofType(got[0], "function", got[1], "custom", got[2])
}

func checkAllowed(c *cursor) error {
	var got [2]jsontext.Value
	if err := c.object(allowedFields, got[:]); err != nil {
		return err
	}
	c.addUnknownWord(func() string { return c.where("mode") }, got[0], "auto", "required")
	return nil
}

// checkFunctionCall checks the deprecated choice of a function.
func checkFunctionCall(param string, c *cursor) error {
	switch k := c.peek(); k {
	case '{':
		return objectOf(checkNamed)(param, c)
	case '"':
		word := c.value()
		c.addUnknownWord(func() string { return param }, word, "none", "auto")
		return nil
	default:
		return WrongType(param, "one of 'none' and 'auto', or an object", k)
	}
}
