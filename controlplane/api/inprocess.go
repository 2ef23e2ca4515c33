package api

import (
	"bytes"
	"io"
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// InProcess returns a client of the admin API that calls its handler, as somebody.
func InProcess(api http.Handler, p authz.Principal) *adminapi.Client {
	return adminapi.NewClient("http://admin", "", &http.Client{Transport: inProcess{api, p}})
}

// inProcess is a transport that calls a handler.
type inProcess struct {
	handler   http.Handler
	principal authz.Principal
}

// RoundTrip calls the handler and returns what it wrote.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(authz.WithPrincipal(r.Context(), t.principal))
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), t.principal.Address
	in.Header.Del("Authorization")
	w := &answer{header: http.Header{}, status: http.StatusOK}
	t.handler.ServeHTTP(w, in)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: r.Proto, ProtoMajor: r.ProtoMajor,
		ProtoMinor: r.ProtoMinor,
		Header:     w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// An answer keeps what a handler writes.
type answer struct {
	header  http.Header
	status  int
	written bool
	body    bytes.Buffer
}

// Header returns the headers, to be set.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader keeps the first status.
func (a *answer) WriteHeader(status int) {
	if !a.written {
		a.status, a.written = status, true
	}
}

// Write keeps b.
func (a *answer) Write(b []byte) (int, error) {
	a.written = true
	return a.body.Write(b)
}
