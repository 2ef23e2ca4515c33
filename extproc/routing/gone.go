package routing

import "github.com/modelgate/modelgate/api/openai"

// ClientGone ends the work on a request. Nobody reads it.
func ClientGone() *openai.Error {
	return &openai.Error{Status: StatusClientGone, Type: openai.TypeInvalidRequest, Code: openai.CodeClientGone,
		Message: "The client has gone."}
}

// StatusClientGone is what servers log of a client that has left before it had an answer; net/http has no name for it.
const StatusClientGone = 499
