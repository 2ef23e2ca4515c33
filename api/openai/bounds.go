package openai

import "bytes"

// The bounds of a request besides the bytes of its body. They are far above normal requests. They keep the work and
// the memory for a body in proportion to its size. They are listed in docs/limits.md.
const (
	// maxDepth bounds the nesting of objects and arrays.
	maxDepth = 128
	// maxOwnMembers bounds the members of the request itself, and maxMembers those of all objects in it.
	maxOwnMembers = 1_024
	maxMembers    = 250_000
	// maxMessages is Anthropic's limit, the highest of all vendors.
	maxMessages = 100_000
	// maxElements bounds the other lists: tools, calls of a message, stop sequences.
	maxElements = 10_000
	// maxInputs bounds the texts of a request for embeddings or completions.
	maxInputs = 100_000
	// maxReferences bounds the references ($ref) in the schemas of a member.
	maxReferences = 10_000
	// maxSchemas bounds the bytes of a member with schemas, which are read several times for vendors with a subset of
	// JSON Schema.
	maxSchemas = 4 << 20
)

// checkMembers counts the members of all objects before their names are checked, because that check allocates memory
// for each.
func checkMembers(body []byte) error {
	if len(body) <= 2*maxMembers || bytes.Count(body, []byte{':'}) <= maxMembers { // each member has a colon
		return nil
	}
	n := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case ':':
			n++
		case '"':
			for i++; i < len(body) && body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
		}
	}
	if n > maxMembers {
		return CodeObjectAboveMaxProperties.New(
			"The JSON body of your request has too many members. Expected at most %d in all objects, but got %d instead.",
			maxMembers, n)
	}
	return nil
}

func tooManyOwnMembers() *Error {
	return CodeObjectAboveMaxProperties.New(
		"The JSON body of your request has too many members. Expected at most %d besides those of objects in it.",
		maxOwnMembers)
}

func tooDeep(param string) *Error {
	return CodeInvalidValue.On(param,
		"Invalid '%s': nested too deep. Expected at most %d objects and arrays within one another.", param, maxDepth)
}

func tooLong(param string, most int) *Error {
	return CodeArrayAboveMaxLength.On(param,
		"Invalid '%s': array too long. Expected an array with maximum length %d, but got a longer one instead.", param, most)
}

// checkSchemas bounds the members with these names, and the references of the schemas in them. It does not find an
// escaped "$ref", which only an attacker writes. Code that follows references has its own bounds.
func (o *Object) checkSchemas(names ...string) error {
	mark := []byte(`"$ref"`)
	if len(o.Body) <= len(mark)*maxReferences {
		return nil
	}
	for _, name := range names {
		schemas := o.Get(name)
		if len(schemas) > maxSchemas {
			return CodeInvalidJSONSchema.On(name,
				"Invalid '%s': too long. Expected at most %d bytes, but got %d instead.", name, maxSchemas, len(schemas))
		}
		if n := bytes.Count(schemas, mark); n > maxReferences {
			return CodeInvalidJSONSchema.On(name,
				"Invalid schema in '%s': too many references. Expected at most %d, but got %d instead.", name, maxReferences, n)
		}
	}
	return nil
}
