// Package provider says what a provider is: a value with one small codec for each thing the gateway asks of a vendor.
// Each vendor is a folder below this one, and package all lists them.
//
// A codec holds no state. Everything that one request needs is in its arguments, and
// everything that one answer needs is in the Answer that came with the request: several attempts of one request,
// at different vendors, are alive at the same time.
package provider

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/secret"
)

// A Provider is everything the gateway knows about one vendor of models. A capability that the vendor lacks is nil,
// and the gateway answers requests for it with an error that names the provider.
type Provider struct {
	// Name is the vendor: its folder, its name in configuration, its metric label.
	Name string
	// DefaultEndpoint is the base URL where the vendor serves, or empty where there is no such place.
	DefaultEndpoint string
	// BaseURL, where it is not nil, takes the place of DefaultEndpoint for a vendor that serves in regions. An error says
	// what the configuration lacks.
	BaseURL func(*configv1.Provider) (string, error)
	// CredentialEnv is the environment variable in which the vendor's own SDK looks for a key, or empty.
	CredentialEnv string
	// CredentialHosts are where the variable CredentialEnv may be sent besides the host of DefaultEndpoint, unless the
	// flags of the process say otherwise: names of hosts that are the vendor's alone, in which "*" stands for what has no
	// dot in it.
	CredentialHosts []string
	// CredentialHeaders are the request headers that carry credentials or choose an account. They are stripped before
	// any attempt at another provider.
	CredentialHeaders []string
	// Sign sets the headers that authenticate a request with the vendor, once nothing else of it will change. A vendor
	// that needs no credential may be given an empty one.
	Sign func(r *Request, s Signing) error
	// SignsBody says that Sign depends on the body, which then has to be there whole also for a Route.
	SignsBody bool
	// Exchange, where it is not nil, turns the configured credential into one that is valid for a while, until the time
	// that it returns; the zero time is for ever. The control plane calls it in good time: requests are signed with the
	// result.
	Exchange func(ctx context.Context, c *configv1.Provider, credential secret.Value) (secret.Value, time.Time, error)
	// DecodeError turns a vendor's answer with a status of 400 or more into OpenAI's error. Body may be anything, also
	// HTML or nothing.
	DecodeError func(status int, header http.Header, body []byte) *openai.Error

	// Chat translates chat completions.
	Chat ChatCodec
	// Completion translates legacy completions. Where it is nil they go over Chat.
	Completion CompletionCodec
	// Embedding translates embeddings.
	Embedding EmbeddingCodec
	// StreamTypes are the media types of its streamed answers. Empty: text/event-stream.
	StreamTypes []string
	// Native are OpenAI's other operations that the vendor serves under the same paths, such as "/images/generations".
	Native []string

	// Models lists the vendor's models.
	Models Lister
	// FineTuning trains models at the vendor.
	FineTuning FineTuner
	// Batches runs batches at the vendor's own batch API.
	Batches Batcher
}

// Streams reports whether an answer of the content type can be a streamed one of the vendor's.
func (p Provider) Streams(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if len(p.StreamTypes) == 0 {
		return media == "text/event-stream"
	}
	return slices.Contains(p.StreamTypes, media)
}

// A Signing is what the signature of a request depends on besides the request.
type Signing struct {
	Config     *configv1.Provider
	Credential secret.Value
	Method     string
	Endpoint   Endpoint // the path of the request is relative to its
	Now        time.Time
}

// A Target is what one attempt is sent to. All of it is shared and must not be modified.
type Target struct {
	// Config is the provider as configured.
	Config *configv1.Provider
	// Model is the provider's own name of the model.
	Model string
	// Facts are what the catalog knows of the model. It may be nil, which says nothing.
	Facts *configv1.ModelFacts
	// Unsent says that the request is not sent, as far as is known yet: all that is asked is whether the vendor can
	// honour it. Codecs may leave the body out.
	Unsent bool
}

// Can returns what the model can do.
func (t Target) Can() *configv1.Capabilities { return t.Facts.GetCapabilities() }

// Drops reports whether parameters that the vendor cannot honour are to be dropped, and named in Request.Dropped.
func (t Target) Drops() bool {
	return t.Config.GetUnsupportedParameters() == configv1.UnsupportedParameters_DROP
}

// A Request is what goes to a vendor. Its path is relative to the endpoint's.
type Request struct {
	Path   string
	Header http.Header // canonical names; content-length and host are not in it
	Body   []byte
	// Dropped names the parameters that were left out because the vendor cannot honour them and the operator said to
	// drop such.
	Dropped []string
	// Adjusted names the parameters whose values are not as the client sent them: the vendor takes no such, and the
	// nearest that it takes went in their place.
	Adjusted []string
}

// A ChatCodec translates chat completions between OpenAI's API and a vendor's. It holds no state.
type ChatCodec interface {
	// Encode builds the vendor's request, and the Answer that reads what comes back for it. The request must not be
	// modified; the bodies may share memory. An error is an *openai.Error.
	Encode(r *openai.ChatRequest, t Target) (Request, Answer, error)
}

// A CompletionCodec does for legacy completions what a ChatCodec does for chat completions.
type CompletionCodec interface {
	Encode(r *openai.CompletionRequest, t Target) (Request, Answer, error)
}

// An EmbeddingCodec does for embeddings what a ChatCodec does for chat completions. Its answers are never streamed.
type EmbeddingCodec interface {
	Encode(r *openai.EmbeddingRequest, t Target) (Request, Answer, error)
}

// An Answer reads one successful answer of a vendor. It is immutable.
type Answer interface {
	// Decode tells what a complete body says. It fails, and tells nothing, where the body is not an answer, also where it
	// is an error sent with status 200; an *openai.Error is then what the client gets.
	Decode(body []byte, asked chat.Asked, out chat.Sink) error
	// Stream returns a decoder for one streamed body.
	Stream(asked chat.Asked) Stream
}

// A Stream decodes one streamed answer. Pieces arrive cut anywhere, also within a rune; where the cuts fall never
// changes what is said.
type Stream interface {
	// Decode takes the next piece of the body and tells what it says. It keeps no reference to piece. With the vendor's
	// own end mark it tells what the end completes, and then the End: clients stop there, and the vendor may keep its
	// connection open. An error ends the stream: an *openai.Error is what the vendor said in band.
	Decode(piece []byte, out chat.Sink) error
	// Close is called when the body has ended before the End was told. It tells what the end completes, and the End,
	// where that is the vendor's end mark, or returns ErrTruncated.
	Close(out chat.Sink) error
}
