// Package provider defines a provider: a value with one small codec for each operation of a vendor. Each vendor is a
// folder below this one. Package all lists them.
//
// A codec has no state. The arguments have everything that a request needs, and the Answer that Encode returns has
// everything that its answer needs. Several attempts of one request, at different vendors, exist at the same time.
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

// A Provider describes one vendor of models. A missing capability is nil. The gateway answers requests for it with an
// error that names the provider.
type Provider struct {
	// Name is the vendor's name: in the configuration, as a metric label, and of its folder.
	Name string
	// DefaultEndpoint is the vendor's base URL, or empty if there is none.
	DefaultEndpoint string
	// BaseURL replaces DefaultEndpoint if it is not nil, for a vendor with regions. An error describes what the
	// configuration lacks.
	BaseURL func(*configv1.Provider) (string, error)
	// Fields are the fields of a configured provider that not every vendor reads: region, project and api_version.
	Fields []string
	// CredentialEnv is the environment variable in which the vendor's own SDK expects a key, or empty.
	CredentialEnv string
	// CredentialHosts are the hosts besides that of DefaultEndpoint that may get the variable CredentialEnv, and tokens
	// of the process's identity in Cloud, unless the flags of the process say otherwise. They must belong only to the
	// vendor. A "*" matches a part without a dot.
	CredentialHosts []string
	// CredentialHeaders are the request headers that carry credentials or select an account. They are removed before an
	// attempt at another provider.
	CredentialHeaders []string
	// Sign sets the headers that authenticate a request with the vendor. The rest of the request must be final. If the
	// vendor needs no credential, it may be empty.
	Sign func(r *Request, s Signing) error
	// SignsBody means that Sign depends on the body, which must then be complete, also for a Route.
	SignsBody bool
	// Exchange, which may be nil, exchanges the configured credential for one that is valid until the returned time. The
	// zero time means that it does not expire. The control plane calls it before that time. Requests are signed with the
	// result.
	Exchange func(ctx context.Context, c *configv1.Provider, credential secret.Value) (secret.Value, time.Time, error)
	// Cloud is the cloud whose workload identities the vendor takes in place of a credential, such as configv1.AWS,
	// or empty. CloudScope is the scope of Azure's tokens.
	Cloud, CloudScope string
	// DecodeError converts a vendor's answer with a status of 400 or more to OpenAI's error. The body may be empty or
	// anything, such as HTML.
	DecodeError func(status int, header http.Header, body []byte) *openai.Error

	// Chat translates chat completions.
	Chat ChatCodec
	// TakesThinking means that Chat reads Anthropic's members of reasoning: thinking, and the effort in output_config.
	TakesThinking bool
	// Messages serves clients of Anthropic's Messages API, and Gemini those of Google's Gemini API, in their own dialect.
	// If it is nil, or does not serve a request, Chat is used.
	Messages, Gemini NativeCodec
	// Completion translates legacy completions. If it is nil, Chat is used.
	Completion CompletionCodec
	// Embedding translates embeddings.
	Embedding EmbeddingCodec
	// Rerank ranks documents. Nil: the vendor cannot.
	Rerank RerankCodec
	// Moderation moderates texts, if the vendor has the operation but not as OpenAI has it: see Native.
	Moderation ModerationCodec
	// StreamTypes are the media types of streamed answers. Empty: text/event-stream.
	StreamTypes []string
	// Realtime returns the path and query of the vendor's Realtime API for a target. A client's WebSocket is
	// connected to it. Its events are OpenAI's, and pass as they are. An error is an *openai.Error.
	Realtime func(t Target) (path string, err error)
	// Native are further operations of OpenAI that the vendor serves under the same paths, such as
	// "/images/generations". Optional are operations that only some of the vendor's servers have. A provider serves
	// them if its configuration names them.
	Native, Optional []string
	// Locate returns the path of an operation of Native for a target, and whether the target has it. Nil: the path is the
	// same.
	Locate func(path string, t Target) (string, bool)
	// ChatOverResponses means that Chat can use /responses alone.
	ChatOverResponses bool

	// Models lists the vendor's models.
	Models Lister
	// FineTuning trains models at the vendor.
	FineTuning FineTuner
	// Batches runs batches with the vendor's own batch API.
	Batches Batcher
}

// NativePath returns the path of one of OpenAI's operations for a target, if the vendor serves it under OpenAI's path
// or one that has another prefix.
func (p Provider) NativePath(path string, t Target) (string, bool) {
	if !slices.Contains(p.Native, path) {
		return "", false
	}
	if p.Locate == nil {
		return path, true
	}
	return p.Locate(path, t)
}

// Streams reports whether an answer with the content type may be a stream of the vendor.
func (p Provider) Streams(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if len(p.StreamTypes) == 0 {
		return media == "text/event-stream"
	}
	return slices.Contains(p.StreamTypes, media)
}

// A Signing has the inputs of a signature besides the request.
type Signing struct {
	Config     *configv1.Provider
	Credential secret.Value
	Method     string
	Endpoint   Endpoint // the path of the request is relative to its
	Now        time.Time
}

// A Target is the destination of one attempt. It is shared and must not be modified.
type Target struct {
	// Config is the configured provider.
	Config *configv1.Provider
	// Model is the provider's own name of the model.
	Model string
	// Facts are the catalog's facts about the model. Nil means that there are none.
	Facts *configv1.ModelFacts
	// Unsent means that the request is not sent for now: Encode only checks whether the vendor can serve it. Codecs may
	// omit the body.
	Unsent bool
	// Guarded means that a guardrail looks at the answer: it must come as events, and not pass as the vendor sends it.
	Guarded bool
	// Mixed means that the client's model has targets of other vendors too. What the client sends is not written for this
	// one alone, and a session may come from another.
	Mixed bool
	// Last means that no other target can serve the request. Codecs then do without more of what their vendor does not
	// take: see turns.IsWish.
	Last bool
}

// Fits reports whether a request is fitted to a vendor with OpenAI's own API: one that the gateway has translated, and
// one that other vendors may have got too. What OpenAI's clients send to OpenAI alone stays as it is.
func (t Target) Fits(r *openai.ChatRequest) bool { return r.Translated || t.Mixed }

// Can returns the capabilities of the model.
func (t Target) Can() *configv1.Capabilities { return t.Facts.GetCapabilities() }

// Drops reports whether unsupported parameters are dropped, and named in Request.Dropped.
func (t Target) Drops() bool {
	return t.Config.GetUnsupportedParameters() == configv1.UnsupportedParameters_DROP
}

// A Request is a request to a vendor. Its path is relative to the endpoint's.
type Request struct {
	Path   string
	Header http.Header // canonical names, without content-length and host
	Body   []byte
	// Dropped names the unsupported parameters that were dropped because of the operator's setting.
	Dropped []string
	// Adjusted names the parameters whose values were replaced by the nearest ones that the vendor supports.
	Adjusted []string
}

// A ChatCodec translates chat completions between OpenAI's API and a vendor's. It has no state.
type ChatCodec interface {
	// Encode builds the vendor's request, and the Answer that decodes the response to it. The request must not be
	// modified. The bodies may share memory. An error is an *openai.Error.
	Encode(r *openai.ChatRequest, t Target) (Request, Answer, error)
}

// A NativeRequest is a checked request of a client, in the client's dialect.
type NativeRequest struct {
	Body   []byte
	Betas  string // the header anthropic-beta
	Stream bool
	Count  bool // only the number of its tokens is wanted
	// Carrier reads the data in the ids of calls that the gateway wrote for this client.
	Carrier openai.Carrier
}

// A NativeCodec passes requests of a client's dialect on to a vendor that speaks it. Its answers give chat.KindNative.
type NativeCodec interface {
	// Serves reports whether the vendor takes a request as the client sent it. Otherwise it is translated.
	Serves(r NativeRequest, t Target) bool
	// Encode returns no Answer for a count if its answer passes as it comes.
	Encode(r NativeRequest, t Target) (Request, Answer, error)
}

// A CompletionCodec translates legacy completions.
type CompletionCodec interface {
	Encode(r *openai.CompletionRequest, t Target) (Request, Answer, error)
}

// A ModerationCodec translates moderations. It has no state.
type ModerationCodec interface {
	// Encode is like ChatCodec.Encode. Answers are never streamed.
	Encode(r *openai.NativeRequest, t Target) (Request, Answer, error)
}

// A RerankCodec translates requests that rank documents. It has no state.
type RerankCodec interface {
	// Encode is like ChatCodec.Encode. Answers are never streamed.
	Encode(r *openai.RerankRequest, t Target) (Request, Answer, error)
}

// An EmbeddingCodec translates embeddings. Its answers are never streamed.
type EmbeddingCodec interface {
	Encode(r *openai.EmbeddingRequest, t Target) (Request, Answer, error)
}

// An Answer decodes one successful answer of a vendor. It is immutable.
type Answer interface {
	// Decode puts the events of a complete body into out. If the body is not an answer, or is an error sent with status
	// 200, it returns an error and puts no events. If that is an *openai.Error, the client gets it.
	Decode(body []byte, asked chat.Asked, out chat.Sink) error
	// Stream returns a decoder for one streamed body.
	Stream(asked chat.Asked) Stream
}

// A Stream decodes one streamed answer. Pieces are cut anywhere, even inside a rune. The cuts never change the events.
type Stream interface {
	// Decode decodes the next piece of the body and puts its events into out. It keeps no reference to piece. At the
	// vendor's end mark it puts the last events and the End, because clients stop there and the vendor may keep its
	// connection open. An error ends the stream. An *openai.Error is an error that the vendor reported in the stream.
	Decode(piece []byte, out chat.Sink) error
	// Close is called if the body has ended before the End event. If the end of the body is the vendor's end mark, it
	// puts the last events and the End. Otherwise it returns ErrTruncated.
	Close(out chat.Sink) error
}
