package gemini

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// maxAllClean bounds what takes the place of references in the schemas of a request, in bytes.
const maxAllClean = 4 << 20

// cleanSchema rewrites the schema at param as the vendor takes it.
func (e *encoder) cleanSchema(text jsontext.Value, param string) (jsontext.Value, error) {
	cleaned, size := schema.Clean(text, schema.RulesFor(schema.Google), maxAllClean-e.replaced)
	if e.replaced += size; e.replaced > maxAllClean {
		return nil, openai.CodeInvalidJSONSchema.On(param,
			"Invalid schema for '%s': with it, the references in the schemas of the request stand for more than %d bytes. Use fewer references, or smaller definitions.", param, maxAllClean)
	}
	return cleaned, nil
}
