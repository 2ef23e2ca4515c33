package pipeline

import (
	"errors"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// ErrNotAStream is the error of an answer that is not a stream although the client asked for one.
var ErrNotAStream = &openai.Error{Status: http.StatusBadGateway, Type: openai.TypeServer,
	Code:    openai.CodeUpstreamNotAStream,
	Message: "The provider answered a request for a stream with something else."}

// ClientError converts an error of a codec to the error that the client gets.
func ClientError(err error) *openai.Error {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e
	}
	if errors.Is(err, provider.ErrTruncated) {
		return &openai.Error{Status: http.StatusBadGateway, Type: openai.TypeServer, Code: openai.CodeUpstreamTruncated,
			Message: "The provider's answer ended before it was complete."}
	}
	return &openai.Error{Status: http.StatusBadGateway, Type: openai.TypeServer, Code: openai.CodeUpstreamInvalidResponse,
		Message: "The provider's answer could not be understood."}
}
