package chain

import (
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/call"
)

// byRoute tells how a path that the gateway does not serve can be passed to a provider.
const byRoute = " An operator can pass a path to a provider as it is, with an object of kind Route."

// missing are groups of operations that clients may expect but OpenAI's API does not have, by the first part of their
// paths.
var missing = map[string]string{"music": "music", "video": "video", "videos": "video", "3d": "3D models",
	"3d-models": "3D models"}

// notServed returns the error for a path that the gateway does not serve but that clients may expect.
func notServed(method, path string) *openai.Error {
	e := call.UnknownURL(method, path)
	group, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	var why string
	switch {
	case missing[group] != "":
		why = "The API that this gateway serves has no operation for " + missing[group] + "."
	case group == "vision":
		why = "Images are seen by chat models: send them as parts of messages to /v1/chat/completions."
	case group == "responses":
		why = "This gateway stores no responses: its operator has not turned that on. Those that a provider stores cannot be reached here."
	case group == "conversations":
		why = "This gateway stores no conversations: its operator has not turned that on."
	default:
		return e
	}
	e.Code, e.Message = openai.CodeUnsupportedEndpoint, e.Message+". "+why+byRoute
	return e
}
