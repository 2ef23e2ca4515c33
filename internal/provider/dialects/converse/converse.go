// Package converse is the dialect of Amazon Bedrock's Converse API, which serves the models of every publisher there.
//
// Models with the same dialect still differ. The catalog has what a model refuses, and families.go has what the models
// of a publisher require of a conversation. The codec uses these, and never a model's name.
package converse

import (
	"net/http"
	"strings"
)

// name is the name of the dialect's vendor.
const name = "bedrock"

// EventStream is the media type of streams.
const EventStream = "application/vnd.amazon.eventstream"

// OperationPath returns the path of an operation of a model. The model is one segment, however many colons and slashes
// it has, and is escaped once; the signature escapes it again.
func OperationPath(model, operation string) string {
	const hex = "0123456789ABCDEF"
	p := append(make([]byte, 0, len("/model/")+len(model)+len(operation)+16), "/model/"...)
	for i := range len(model) {
		c := model[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~", c) >= 0 {
			p = append(p, c)
		} else {
			p = append(p, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(append(append(p, '/'), operation...))
}

// Headers returns the headers of a request whose answer has the media type.
func Headers(accept string) http.Header {
	return http.Header{"Content-Type": {"application/json"}, "Accept": {accept}}
}
