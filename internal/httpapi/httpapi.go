// Package httpapi has the common parts of the HTTP handlers of the gateway's own APIs: JSON answers, and errors in the
// form that clients know, [openai.Error].
//
// A handler returns its error and logs nothing. [Handler] renders all errors and logs the gateway's own faults. An
// error of another type than *openai.Error is such a fault, and the client only gets a 500.
package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"strconv"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// A HandlerFunc answers a request, or returns an error before it has written anything.
type HandlerFunc func(http.ResponseWriter, *http.Request) error

// Handler returns a handler that runs f and answers with the error that it returns. Errors with a status of 500 and
// above are logged.
func Handler(log *zap.Logger, f HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := f(w, r)
		if err == nil {
			return
		}
		apiErr := asError(err)
		if apiErr.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
			log.Error("request failed", zap.String("method", telemetry.Clip(r.Method)),
				zap.String("path", telemetry.Clip(r.URL.Path)), zap.Error(err))
		}
		WriteError(w, r, apiErr)
	})
}

// A failure is an error for the client with its cause, which is only for the log.
type failure struct {
	answer *openai.Error
	cause  error
}

// Error returns both, for the log.
func (f *failure) Error() string { return f.answer.Error() + ": " + f.cause.Error() }

// Unwrap returns both, so that errors.As finds the client's error.
func (f *failure) Unwrap() []error { return []error{f.answer, f.cause} }

// WithCause returns an error that answers with e and is logged with its cause.
func WithCause(e *openai.Error, cause error) error { return &failure{answer: e, cause: cause} }

func asError(err error) *openai.Error {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e
	}
	return openai.CodeInternalError.New("The server had an error while it processed your request. Its log says more.")
}

// WriteError answers a request with the error: its status, its headers and its body. It takes the rest of the request
// first, within bounds.
func WriteError(w http.ResponseWriter, r *http.Request, e *openai.Error) {
	drain(w, r)
	for name, values := range e.Header() {
		w.Header()[name] = values
	}
	write(w, e.Status, e.AppendJSON(nil))
}

// WriteJSON answers with v as JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	write(w, status, body)
	return nil
}

func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone away; there is nobody to tell
}

// Recover returns a handler that answers 500 where next panics, and logs the stack.
func Recover(log *zap.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p) // asks net/http to cut the connection
			}
			log.Error("handler panicked", zap.String("path", telemetry.Clip(r.URL.Path)), zap.Any("panic", p),
				zap.ByteString("stack", debug.Stack()))
			WriteError(w, r, asError(nil))
		}()
		next.ServeHTTP(w, r)
	})
}
