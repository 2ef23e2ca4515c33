// Package fakeprovider is a provider of models without a model: an HTTP server that speaks OpenAI's chat completions and
// repeats what the user said. `modelgate run` serves it as the provider echo, and tests use it as an upstream.
//
// What a newcomer gets wrong: it is a provider, not a part of the gateway. It sits behind Envoy, and shares with the data
// path no more than the check of requests and the shape of errors.
package fakeprovider

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
)

// maxBody is the largest request in bytes.
const maxBody = 64 << 20

// Handler returns the server. It answers POST of every path that ends in /chat/completions and GET of every path that
// ends in /models, needs no credential and takes any model's name. It streams word by word without delay, and stops as
// soon as the request's context is cancelled.
func Handler() http.Handler { return http.HandlerFunc(serve) }

func serve(w http.ResponseWriter, r *http.Request) {
	var method string
	var serve func(http.ResponseWriter, *http.Request) *openai.Error
	switch {
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		method, serve = http.MethodPost, serveChat
	case strings.HasSuffix(r.URL.Path, "/models"):
		method, serve = http.MethodGet, serveModels
	default:
		writeError(w, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "unknown_url",
			Message: "Unknown request URL: " + r.Method + " " + r.URL.Path + "."})
		return
	}
	if r.Method != method {
		w.Header().Set("Allow", method)
		writeError(w, &openai.Error{Status: http.StatusMethodNotAllowed, Type: openai.TypeInvalidRequest, Code: "method_not_supported",
			Message: "Only " + method + " requests are accepted here."})
		return
	}
	if e := serve(w, r); e != nil {
		writeError(w, e)
	}
}

func serveModels(w http.ResponseWriter, _ *http.Request) *openai.Error {
	writeJSON(w, map[string]any{"object": "list", "data": []any{
		map[string]any{"id": "echo", "object": "model", "created": 1700000000, "owned_by": "modelgate"},
	}})
	return nil
}

func serveChat(w http.ResponseWriter, r *http.Request) *openai.Error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return &openai.Error{Status: http.StatusRequestEntityTooLarge, Type: openai.TypeInvalidRequest, Code: "request_too_large", Message: "The request is too large."}
		}
		return openai.BadRequest("", "", "The request could not be read.")
	}
	request, err := openai.ParseChatRequest(body)
	if err != nil {
		return asError(err)
	}
	chat, err := request.Chat()
	if err != nil {
		return asError(err)
	}
	a := reply(request.Model, chat)
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
	return openai.BadRequest("", "", "The request could not be read.")
}

func writeError(w http.ResponseWriter, e *openai.Error) {
	for name, values := range e.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(e.AppendJSON(nil)) // the client has gone, which nobody can be told
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // likewise
}
