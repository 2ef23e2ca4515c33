package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
)

// ReadBody returns the body of a request, or a 413 where it is larger than limit bytes.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &openai.Error{Status: http.StatusRequestEntityTooLarge, Type: openai.TypeInvalidRequest,
			Code:    openai.CodeRequestTooLarge,
			Message: fmt.Sprintf("The body of your request is larger than %d bytes.", limit)}
	}
	if err != nil {
		return nil, openai.BadRequest("", openai.CodeIncompleteBody, "The body of your request did not arrive whole.")
	}
	return body, nil
}
