package openai

import "bytes"

// The bounds of a request, beside the bytes of its body. They are far beyond what people send, and keep the work and
// the memory that a body takes in proportion to its size. They are listed in docs/limits.md.
const (
	// maxDepth is how many objects and arrays may be within one another.
	maxDepth = 128
	// maxOwnMembers is how many members the request may have itself, and maxMembers how many with all objects in it.
	maxOwnMembers = 1_024
	maxMembers    = 250_000
	// maxMessages is what Anthropic takes, which is the most of all vendors.
	maxMessages = 100_000
	// maxElements bounds the other lists that are read: tools, calls of a message, sequences to stop at.
	maxElements = 10_000
	// maxInputs is how many texts a request for embeddings or completions may have.
	maxInputs = 100_000
	// maxReferences is how many references ($ref) the schemas of a member may have.
	maxReferences = 10_000
	// maxSchemas bounds the bytes of a member with schemas: they are read several times for vendors that take a part of
	// JSON Schema.
	maxSchemas = 4 << 20
)

// checkMembers counts the members of all objects before anything is kept of them: the check of their names takes
// memory for each.
func checkMembers(body []byte) error {
	if len(body) <= 2*maxMembers || bytes.Count(body, []byte{':'}) <= maxMembers { // there is a colon for each
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
		return BadRequest("", CodeObjectAboveMaxProperties,
			"The JSON body of your request has too many members. Expected at most %d in all objects, but got %d instead.",
			maxMembers, n)
	}
	return nil
}

func tooManyOwnMembers() *Error {
	return BadRequest("", CodeObjectAboveMaxProperties,
		"The JSON body of your request has too many members. Expected at most %d besides those of objects in it.",
		maxOwnMembers)
}

func tooDeep(param string) *Error {
	return BadRequest(param, CodeInvalidValue,
		"Invalid '%s': nested too deep. Expected at most %d objects and arrays within one another.", param, maxDepth)
}

func tooLong(param string, most int) *Error {
	return BadRequest(param, CodeArrayAboveMaxLength,
		"Invalid '%s': array too long. Expected an array with maximum length %d, but got a longer one instead.", param, most)
}

// checkSchemas bounds the members of these names, and the references of the schemas in them. A name that hides "$ref"
// behind escapes is nobody's but an attacker's; who follows references has bounds of his own.
func (o *Object) checkSchemas(names ...string) error {
	mark := []byte(`"$ref"`)
	if len(o.Body) <= len(mark)*maxReferences {
		return nil
	}
	for _, name := range names {
		schemas := o.Get(name)
		if len(schemas) > maxSchemas {
			return BadRequest(name, CodeInvalidJSONSchema,
				"Invalid '%s': too long. Expected at most %d bytes, but got %d instead.", name, maxSchemas, len(schemas))
		}
		if n := bytes.Count(schemas, mark); n > maxReferences {
			return BadRequest(name, CodeInvalidJSONSchema,
				"Invalid schema in '%s': too many references. Expected at most %d, but got %d instead.", name, maxReferences, n)
		}
	}
	return nil
}
