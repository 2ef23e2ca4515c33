package httpapi

import (
	"net/http"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// Mux returns a handler that serves mux, and answers as JSON where mux itself would answer in plain text: 404 for a
// path that it does not know, and 405, with the header Allow, for a method.
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
			allowed := strings.Split(refusal.header.Get("Allow"), ", ")
			WriteError(w, r, openai.WrongMethod(telemetry.Clip(r.Method), telemetry.Clip(r.URL.Path), allowed...))
			return
		}
		WriteError(w, r, openai.UnknownURL(telemetry.Clip(r.Method), telemetry.Clip(r.URL.Path)))
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
