package routing

import "github.com/modelgate/modelgate/api/openai"

// ClientGone is the error that ends the work on a request after its client has left. Nobody receives it.
func ClientGone() *openai.Error {
	return openai.CodeClientGone.New("The client has gone.")
}
