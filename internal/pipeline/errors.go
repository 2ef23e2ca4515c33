package pipeline

import (
	"errors"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// ErrNotAStream is the error of an answer that is not a stream although the client asked for one.
var ErrNotAStream = openai.CodeUpstreamNotAStream.New("The provider answered a request for a stream with something else.")

// ClientError converts an error of a codec to the error that the client gets.
func ClientError(err error) *openai.Error {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e
	}
	if errors.Is(err, provider.ErrTruncated) {
		return openai.CodeUpstreamTruncated.New("The provider's answer ended before it was complete.")
	}
	return openai.CodeUpstreamInvalidResponse.New("The provider's answer could not be understood.")
}
