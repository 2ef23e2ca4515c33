// Package gemini is the dialect of Google's Gemini API, which AI Studio and Vertex AI serve.
//
// The vendor's stream has no end mark. Each event is a complete answer with a piece of the text. Any event, or all of
// them, may have a finish reason, and an error may follow. So no answer is complete for the client before the body
// ends.
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
