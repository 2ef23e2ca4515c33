package httpapi

import (
	"errors"
	"io"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
)

// ReadBody returns the body of a request, or a 413 if it is larger than limit bytes.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	return ReadBodyBy(w, r, limit, io.ReadAll)
}

// ReadBodyBy is ReadBody that reads with a function. What this returns for the client is returned.
func ReadBodyBy(w http.ResponseWriter, r *http.Request, limit int64,
	read func(io.Reader) ([]byte, error)) ([]byte, error) {
	body, err := read(http.MaxBytesReader(w, r.Body, limit))
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return nil, e
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, openai.CodeRequestTooLarge.New("The body of your request is larger than %d bytes.", limit)
	}
	if err != nil {
		return nil, openai.CodeIncompleteBody.New("The body of your request did not arrive whole.")
	}
	return body, nil
}
