// Package message has the types of an HTTP message that the packages of extproc share.
package message

import (
	"net/http"
)

// A Header is one header of a message. Names are in lower case, as Envoy gives them.
type Header struct {
	Name  string
	Value string
}

// Headers are the headers of a message in Envoy's order.
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

// Headers of W3C Trace Context.
const (
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
)
