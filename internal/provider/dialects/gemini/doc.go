// Package gemini is the dialect of Google's Gemini API, which AI Studio and Vertex AI serve.
//
// The vendor's stream has no end mark. Each event is a whole answer by itself, with a piece of the text; a reason for
// finishing may stand in any of them, or in all, and an error after it. So nothing is finished for the client before
// the body ends.
package gemini

import (
	"net/url"
	"strings"
)

// Method is what follows the name of a model in the path of a request.
func Method(stream bool) string {
	if stream {
		return ":streamGenerateContent?alt=sse"
	}
	return ":generateContent"
}

// Resource returns the path of a model, which may be named with its collection, such as models or tunedModels.
func Resource(model string) string {
	collection, id, ok := strings.Cut(model, "/")
	if !ok {
		collection, id = "models", model
	}
	return "/" + url.PathEscape(collection) + "/" + url.PathEscape(id)
}
