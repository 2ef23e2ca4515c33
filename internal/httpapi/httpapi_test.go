package httpapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
)

func observed() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	return zap.New(core), logs
}

func serve(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

func TestHandlerRendersAndLogsErrors(t *testing.T) {
	unavailable := &openai.Error{Status: 503, Type: openai.TypeServer, Code: "overloaded", Message: "Later.",
		RetryAfter: 1500 * time.Millisecond}
	for name, tc := range map[string]struct {
		err    error
		status int
		body   string
		logged string
	}{
		"the client's mistake": {openai.Code("invalid").On("name", "Bad."), 400,
			`{"error":{"message":"Bad.","type":"invalid_request_error","param":"name","code":"invalid"}}`, ""},
		"wrapped": {fmt.Errorf("put: %w", openai.BadRequest("", "Bad.")), 400,
			`{"error":{"message":"Bad.","type":"invalid_request_error","param":null,"code":null}}`, ""},
		"with its cause": {httpapi.WithCause(unavailable, errors.New("etcd is away")), 503,
			`{"error":{"message":"Later.","type":"server_error","param":null,"code":"overloaded"}}`, "etcd is away"},
		"our own fault": {errors.New("secret detail"), 500,
			`{"error":{"message":"The server had an error while it processed your request. Its log says more.","type":"server_error","param":null,"code":"internal_error"}}`, "secret detail"},
	} {
		t.Run(name, func(t *testing.T) {
			log, logs := observed()
			w := serve(httpapi.Handler(log, func(http.ResponseWriter, *http.Request) error { return tc.err }), "GET", "/x", "")
			require.Equal(t, tc.status, w.Code)
			require.JSONEq(t, tc.body, w.Body.String())
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			if tc.status == 503 {
				require.Equal(t, "2", w.Header().Get("Retry-After"))
			}
			if tc.logged == "" {
				require.Zero(t, logs.Len())
				return
			}
			require.Equal(t, 1, logs.Len())
			require.Contains(t, logs.All()[0].ContextMap()["error"], tc.logged)
		})
	}
}

func TestMuxAnswersAsJSON(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /things/{name...}", func(w http.ResponseWriter, r *http.Request) {
		_ = httpapi.WriteJSON(w, http.StatusOK, map[string]string{"name": r.PathValue("name")})
	})
	h := httpapi.Mux(mux)

	w := serve(h, "GET", "/things/a/b", "")
	require.Equal(t, 200, w.Code)
	require.Equal(t, `{"name":"a/b"}`, w.Body.String())

	w = serve(h, "POST", "/things/a", "")
	require.Equal(t, 405, w.Code)
	require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
	require.Contains(t, w.Body.String(), `"code":"method_not_supported"`)

	w = serve(h, "GET", "/else", "")
	require.Equal(t, 404, w.Code)
	require.Contains(t, w.Body.String(), `"code":"unknown_url"`)
}

func TestRecoverAnswersAndLogs(t *testing.T) {
	log, logs := observed()
	w := serve(httpapi.Recover(log, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") })), "GET",
		"/x", "")
	require.Equal(t, 500, w.Code)
	require.Contains(t, w.Body.String(), `"code":"internal_error"`)
	require.NotContains(t, w.Body.String(), "boom")
	require.Equal(t, 1, logs.Len())

	abort := httpapi.Recover(log, http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		panic(http.ErrAbortHandler)
	}))
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { serve(abort, "GET", "/x", "") })
}

func TestReadBodyBoundsTheSize(t *testing.T) {
	h := httpapi.Handler(zap.NewNop(), func(w http.ResponseWriter, r *http.Request) error {
		body, err := httpapi.ReadBody(w, r, 4)
		if err != nil {
			return err
		}
		return httpapi.WriteJSON(w, 200, string(body))
	})
	require.Equal(t, `"1234"`, serve(h, "PUT", "/", "1234").Body.String())
	require.Equal(t, 413, serve(h, "PUT", "/", "12345").Code)
}
