package httpapi

import (
	"fmt"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
)

// Mux returns a handler that serves mux, and answers as JSON where mux itself would answer in plain text: 404 for a path
// that it does not know, and 405, with the header Allow, for a method.
func Mux(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refusal := &refusalWriter{header: http.Header{}}
		h.ServeHTTP(refusal, r)
		if refusal.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", refusal.header.Get("Allow"))
			WriteError(w, r, &openai.Error{Status: refusal.status, Type: openai.TypeInvalidRequest, Code: "method_not_supported",
				Message: fmt.Sprintf("Not allowed to %s on %s. Allowed: %s.", r.Method, r.URL.Path, refusal.header.Get("Allow"))})
			return
		}
		WriteError(w, r, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "unknown_url",
			Message: fmt.Sprintf("Invalid URL (%s %s)", r.Method, r.URL.Path)})
	})
}

// A refusalWriter takes what ServeMux answers for a request that matches nothing.
type refusalWriter struct {
	header http.Header
	status int
}

func (w *refusalWriter) Header() http.Header         { return w.header }
func (w *refusalWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *refusalWriter) WriteHeader(status int)      { w.status = status }
