// Package message has what an HTTP message is made of, as the rooms of extproc hand it to each other.
package message

import (
	"net/http"
)

// A Header is one header of a message. Names are in lower case, as Envoy gives them.
type Header struct {
	Name  string
	Value string
}

// Headers are the headers of a message in the order in which Envoy gives them.
type Headers []Header

// Get returns the first value of a header, or "".
func (h Headers) Get(name string) string {
	for i := range h {
		if h[i].Name == name {
			return h[i].Value
		}
	}
	return ""
}

// HTTP returns the headers as the standard library's type, for decoders of errors.
func (h Headers) HTTP() http.Header {
	out := make(http.Header, len(h))
	for _, e := range h {
		if e.Name[0] != ':' {
			out.Add(e.Name, e.Value)
		}
	}
	return out
}

// Headers by which a request joins a trace.
const (
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
)
