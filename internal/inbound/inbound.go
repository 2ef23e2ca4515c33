// Package inbound defines the dialect of a client: its operations, where a request has its key, how a request is
// parsed, and how answers and errors are written. Each dialect is a value in its own folder. Package dialects lists
// them.
package inbound

import (
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
)

// A Dialect is an API that clients speak to the gateway.
type Dialect struct {
	Name       string
	Operations []*Operation
	// Prefix begins paths that no other dialect has. It may be empty.
	Prefix string
	// Match returns the operation of a path that has the name of a model, or nil. It is nil if each operation has one
	// path.
	Match func(path, query string) *Operation
	// Plain means that the writers use events only. OpenAI's writers use the raw forms of vendors that speak its dialect.
	Plain bool
	// KeyHeader is a header that may have the key in place of a bearer token, or empty. Its name is in lower case.
	KeyHeader string
	// KeyParameter is a parameter of the URL that may have the key, or empty.
	KeyParameter string
	// RequestIDHeader is a header with the request's id besides x-request-id, or empty.
	RequestIDHeader string
	// LimitHeader returns the dialect's form of a header that reports a limit. Nil: the headers are OpenAI's.
	LimitHeader func(name, value string, now time.Time) (string, string)
	// Header is a header that only the dialect's clients send. It tells whose GET /v1/models is. Empty: there is none.
	Header string
	// AppendModels appends the dialect's form of OpenAI's list of models, or of one model. Nil: it is OpenAI's.
	AppendModels func(dst, models []byte) []byte
	// OpenAIErrors means that errors have OpenAI's form.
	OpenAIErrors bool
	// AppendError appends the body of an error to dst. AppendErrorEvent appends the event that ends a stream with an
	// error after some of it was sent as the provider wrote it.
	AppendError, AppendErrorEvent func(dst []byte, e *openai.Error) []byte
}

// An Operation is an endpoint of a dialect that takes a model.
type Operation struct {
	Dialect      *Dialect
	Path         string // empty: see Dialect.Match
	Name         string // in metrics and logs
	Required     string // the required members, for messages
	Subject      string // the member that a request is about; it tells a body from one of another dialect
	AcceptsForms bool   // also accepts forms
	// Streams means that an answer may be translated piece by piece. Whether the client wants a stream is in the body,
	// which is too late to choose how the answer comes.
	Streams     bool
	StreamType  string // the media type of streams; empty: they are server-sent events
	TextAnswer  bool   // answers are text, and the request may bound their length
	ImageAnswer bool   // answers are images
	Free        bool   // the provider bills nothing
	// AppendCount appends the answer of an operation that counts tokens, if the gateway itself counts: see CountHere.
	AppendCount func(dst []byte, tokens int64) []byte
	Parse       func(h Head, body []byte) (Request, error)
	// StateOf returns what a request wants of stored state. Nil: the operation has none.
	StateOf func(sent *openai.Members) State
	// Stream returns the writer of a streamed answer, and Document the writer of a complete one.
	Stream, Document func(chat.Asked) chat.Writer
}

// IsCounted reports whether the tokens of an answer that was cut can be counted. For a Route, o is nil.
func (o *Operation) IsCounted() bool { return o != nil && (o.TextAnswer || !o.AcceptsForms) }

// State is a request's need for objects that the job service stores.
type State uint8

// The values of State.
const (
	Stateless  State = iota
	Stateful         // it refers to stored objects, or becomes one
	Background       // likewise, and its answer is read later
)

// CountHere is the error of Encode if the gateway itself must count the tokens of a request: the vendor cannot.
type CountHere struct{ Vendor, Model string }

// Error implements error.
func (e *CountHere) Error() string { return "the provider does not count tokens" }

// A Head has the headers of a request that its parser needs.
type Head struct {
	Path        string
	ContentType string
	Betas       string // anthropic-beta
	// Carrier reads the data in the ids of calls that the gateway wrote for this client.
	Carrier openai.Carrier
}

// A Request is a client's parsed request.
type Request struct {
	Model        string
	Stream       bool
	IncludeUsage bool
	Echo         []byte // what the writer of the answer needs of the request: see chat.Asked
	// Sent are the members of the client's body, from the one parse. Nil: it is a form, or there is no body.
	Sent *openai.Members
	Encoder
}

// An Encoder builds the request for a target, and the Answer that decodes the vendor's answer. A nil Answer means that
// the answer passes as it comes. Encode may be called for several targets at once. An error is an *openai.Error.
type Encoder interface {
	Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error)
}
