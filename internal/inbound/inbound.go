// Package inbound defines the dialect of a client: its operations, where a request has its key, how a request is
// parsed, and how answers and errors are written. Each dialect is a value in its own folder. Package dialects lists
// them.
package inbound

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
)

// A Dialect is an API that clients speak to the gateway.
type Dialect struct {
	Name       string
	Operations []*Operation
	// Plain means that the writers use events only. OpenAI's writers use the raw forms of vendors that speak its dialect.
	Plain bool
	// Authorization returns the key of a request as an Authorization header with a bearer token. The function header
	// returns the first value of a header, by its name in lower case.
	Authorization func(header func(name string) string) string
	// AppendError appends the body of an error to dst. AppendErrorEvent appends the event that ends a stream with an
	// error after some of it was sent as the provider wrote it.
	AppendError, AppendErrorEvent func(dst []byte, e *openai.Error) []byte
}

// An Operation is an endpoint of a dialect that takes a model.
type Operation struct {
	Dialect      *Dialect
	Path         string
	Name         string // in metrics and logs
	Required     string // the required members, for messages
	AcceptsForms bool   // also accepts forms
	// Streams means that an answer may be translated piece by piece. Whether the client wants a stream is in the body,
	// which is too late to choose how the answer comes.
	Streams     bool
	TextAnswer  bool // answers are text, and the request may bound their length
	ImageAnswer bool // answers are images
	Parse       func(contentType string, body []byte) (Request, error)
	// Stream returns the writer of a streamed answer, and Document the writer of a complete one.
	Stream, Document func(chat.Asked) chat.Writer
}

// IsCounted reports whether the tokens of an answer that was cut can be counted. For a Route, o is nil.
func (o *Operation) IsCounted() bool { return o != nil && (o.TextAnswer || !o.AcceptsForms) }

// A Request is a client's parsed request.
type Request struct {
	Model        string
	Stream       bool
	IncludeUsage bool
	Encoder
}

// An Encoder builds the request for a target, and the Answer that decodes the vendor's answer. A nil Answer means that
// the answer passes as it comes. Encode may be called for several targets at once. An error is an *openai.Error.
type Encoder interface {
	Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error)
}
