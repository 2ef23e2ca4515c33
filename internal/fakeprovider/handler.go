// Package fakeprovider is a provider without a model: an HTTP server with OpenAI's dialect that repeats the user's
// text, and simulates the training of models. `modelgate run` serves it as the provider echo, and tests use it as an
// upstream.
//
// It is a provider, and not a part of the gateway. It runs behind Envoy. It shares only the check of requests and the
// format of errors with the data path.
package fakeprovider

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// maxBody is the largest request in bytes that is read whole.
const maxBody = 64 << 20

// Handler returns the server. It answers under any prefix of the path, needs no credential and takes any model's name.
// It streams word by word without delay, and stops as soon as the request's context is cancelled. Of files and
// fine-tuning jobs it keeps nothing but what was done to the latest: ids carry the rest.
func Handler() http.Handler { return newServer(time.Now) }

// A server is the server, with the clock that jobs go by.
type server struct {
	now    func() time.Time
	memory *memory
	routes []route
}

// A route is what serves a method on paths whose last parts match a pattern of package path.
type route struct {
	method, pattern string
	serve           func(http.ResponseWriter, *http.Request) *openai.Error
}

func newServer(now func() time.Time) *server {
	s := &server{now: now, memory: newMemory()}
	const jobs = "/fine_tuning/jobs"
	s.routes = []route{
		{http.MethodPost, "/chat/completions", s.serveChat},
		{http.MethodPost, "/embeddings", s.serveEmbeddings},
		{http.MethodGet, "/models", serveModels},
		{http.MethodDelete, "/models/*", s.serveDelete},
		{http.MethodPost, "/files", s.serveUpload},
		{http.MethodGet, "/files/*/content", s.serveContent},
		{http.MethodPost, jobs, s.serveCreate},
		{http.MethodGet, jobs, s.serveJobs},
		{http.MethodGet, jobs + "/*", s.forJob(s.serveJob)},
		{http.MethodGet, jobs + "/*/events", s.forJob(s.serveEvents)},
		{http.MethodGet, jobs + "/*/checkpoints", s.forJob(s.serveCheckpoints)},
		{http.MethodPost, jobs + "/*/cancel", s.control("cancelled", s.cancel)},
		{http.MethodPost, jobs + "/*/pause", s.control("paused", s.pause)},
		{http.MethodPost, jobs + "/*/resume", s.control("resumed", s.resume)},
	}
	return s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, route := range s.routes {
		if !matches(route.pattern, r.URL.Path) {
			continue
		}
		if allowed = append(allowed, route.method); route.method == r.Method {
			if e := route.serve(w, r); e != nil {
				writeError(w, e)
			}
			return
		}
	}
	if allowed == nil {
		writeError(w, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "unknown_url",
			Message: "Unknown request URL: " + r.Method + " " + r.URL.Path + "."})
		return
	}
	methods := strings.Join(allowed, ", ")
	w.Header().Set("Allow", methods)
	writeError(w, &openai.Error{Status: http.StatusMethodNotAllowed, Type: openai.TypeInvalidRequest,
		Code:    "method_not_supported",
		Message: "Only " + methods + " requests are accepted here."})
}

// matches reports whether the last parts of a path match a pattern.
func matches(pattern, p string) bool {
	parts := strings.Split(p, "/")
	n := strings.Count(pattern, "/")
	if len(parts) <= n {
		return false
	}
	return slices.EqualFunc(strings.Split(pattern, "/")[1:], parts[len(parts)-n:], configv1.Matches)
}

// pathPart returns the segment of the path after the last occurrence of another.
func pathPart(r *http.Request, after string) string {
	parts := strings.Split(r.URL.Path, "/")
	slices.Reverse(parts)
	if i := slices.Index(parts, after); i > 0 {
		return parts[i-1]
	}
	return ""
}

func serveModels(w http.ResponseWriter, _ *http.Request) *openai.Error {
	writeJSON(w, map[string]any{"object": "list", "data": []any{
		map[string]any{"id": "echo", "object": "model", "created": 1700000000, "owned_by": "modelgate"},
	}})
	return nil
}

func (s *server) serveChat(w http.ResponseWriter, r *http.Request) *openai.Error {
	body, e := readBody(w, r)
	if e != nil {
		return e
	}
	request, err := openai.ParseChatRequest(body)
	if err != nil {
		return asError(err)
	}
	if err := request.RejectAll(); err != nil {
		return asError(err)
	}
	chat, err := request.Chat()
	if err != nil {
		return asError(err)
	}
	m, isTuned := readModelName(request.Model)
	if isTuned && s.memory.forgotten(request.Model) {
		return openai.ModelNotFound(request.Model)
	}
	say := func(text string) string { return text }
	if isTuned {
		say = m.says
	}
	a := reply(request.Model, chat, say)
	if request.Stream {
		a.stream(r.Context(), w, request.IncludeUsage)
		return nil
	}
	writeJSON(w, a.completion())
	return nil
}

func asError(err error) *openai.Error {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e
	}
	return openai.BadRequest("", "The request could not be read.")
}

func writeError(w http.ResponseWriter, e *openai.Error) {
	for name, values := range e.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(e.AppendJSON(nil)) // if the client has gone, nobody reads the error
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // likewise
}
