// Package inbound is what a client's dialect is: the operations that it has, where a request has its key, how a
// request is parsed, and how answers and errors are written. Each dialect is a value in a folder of its own; package
// dialects lists them.
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
	// Plain says that answers are written from events alone. OpenAI's writers use the raw forms of vendors that speak its
	// dialect.
	Plain bool
	// Authorization returns the key of a request, as an Authorization header with a bearer token has it. Header returns
	// the first value of a header, by its name in lower case.
	Authorization func(header func(name string) string) string
	// AppendError appends the body of an error to dst, and AppendErrorEvent what ends a stream of which something has
	// gone out as the provider wrote it.
	AppendError, AppendErrorEvent func(dst []byte, e *openai.Error) []byte
}

// An Operation is what a dialect serves under one path for a model.
type Operation struct {
	Dialect *Dialect
	Path    string
	Name    string // what metrics and logs call it
	Needs   string // what every request has, for messages
	Forms   bool   // takes forms too
	// Streams says that an answer may be translated piece by piece. Whether the client wants that is in the body, too
	// late for a choice of how the answer comes.
	Streams bool
	Says    bool // answers are text, whose length the request may bound
	Draws   bool // answers are images
	Parse   func(contentType string, body []byte) (Request, error)
	// Stream returns what writes a streamed answer, and Document what writes one that comes whole.
	Stream, Document func(chat.Asked) chat.Writer
}

// IsCounted reports whether the tokens of an answer that was cut can be counted. Of a Route, o is nil.
func (o *Operation) IsCounted() bool { return o != nil && (o.Says || !o.Forms) }

// A Request is a client's, parsed.
type Request struct {
	Model        string
	Stream       bool
	IncludeUsage bool
	Encoder
}

// An Encoder builds the request for a target, and the Answer that reads what comes back; nil for an answer that passes
// as it comes. It may be called for several targets at once. An error is an *openai.Error.
type Encoder interface {
	Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error)
}
