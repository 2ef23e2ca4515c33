// Package responses is OpenAI's Responses API: https://platform.openai.com/docs/api-reference/responses.
//
// Vendors that serve it get the client's request as it is. For all others, a request is translated into a chat
// completion, and the answer's events are written as a response's events. The job service takes requests that store
// a response or need a stored one. For everything else it is a client of the gateway.
package responses

import (
	"bytes"
	"mime"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/compose"
	dialect "github.com/modelgate/modelgate/internal/inbound/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// Dialect is the API. Keys and errors are as in the rest of OpenAI's.
var Dialect = &inbound.Dialect{
	Name:  "responses",
	Plain: true,
	Operations: []*inbound.Operation{{Path: "/v1/responses", Name: "responses", Required: "'model'",
		Subject: "input", Parse: parse,
		Streams: true, TextAnswer: true, StateOf: stateOf,
		Stream:   func(a chat.Asked) chat.Writer { return newStream(a) },
		Document: chat.Documents(appendAnswer)},
		{Path: "/v1" + compact, Name: "responses/compact", Required: "'model'", Parse: parseCompact, StateOf: referOf}},
	AppendError:      dialect.Dialect.AppendError,
	AppendErrorEvent: dialect.Dialect.AppendErrorEvent,
	OpenAIErrors:     true,
}

const (
	path     = "/responses"
	compact  = "/responses/compact"
	jsonType = "application/json"
)

// A request is a client's request. It is translated when a vendor needs it that does not serve the API.
type request struct {
	*openai.NativeRequest
	body    []byte
	carrier openai.Carrier
	compose.Translation
}

func parse(h inbound.Head, data []byte) (inbound.Request, error) {
	native, sent, err := parseNative(h, data)
	if err != nil {
		return inbound.Request{}, err
	}
	r := &request{NativeRequest: native, body: data, carrier: h.Carrier}
	return inbound.Request{Model: native.Model, Stream: gjson.ParseBytes(sent.Get("stream")).Bool(), Encoder: r,
		Sent: sent, Echo: data}, nil
}

// parseNative returns the request for vendors that serve the API, and the members of the client's.
func parseNative(h inbound.Head, data []byte) (*openai.NativeRequest, *openai.Members, error) {
	if media, _, err := mime.ParseMediaType(h.ContentType); h.ContentType != "" && (err != nil || media != jsonType) {
		return nil, nil, openai.UnsupportedContentType(h.ContentType, jsonType)
	}
	bare := returned(h.Carrier, data)
	native, err := openai.ParseNativeRequest(bare)
	if err != nil {
		return nil, nil, err
	}
	if len(bare) != len(data) {
		return native, openai.MembersOf(data), nil
	}
	return native, native.Members(), nil
}

// returned takes out of a conversation what the gateway added to answers of other vendors: data in the ids of calls.
func returned(by openai.Carrier, data []byte) []byte {
	if !openai.HasCarried(data) {
		return data
	}
	s := openai.Stripper{By: by, Body: data}
	gjson.GetBytes(data, "input").ForEach(func(_, item gjson.Result) bool {
		first, second := item.Get("id"), item.Get("call_id") // some results have the id of their call in id
		if first.Index > second.Index {
			first, second = second, first
		}
		s.Strip(first.Index, first.Raw, first.Str)
		s.Strip(second.Index, second.Raw, second.Str)
		return true
	})
	return s.Stripped()
}

// A compaction is a request for a shorter form of a conversation, which only some vendors can make.
type compaction struct{ *openai.NativeRequest }

func parseCompact(h inbound.Head, data []byte) (inbound.Request, error) {
	native, sent, err := parseNative(h, data)
	if err != nil {
		return inbound.Request{}, err
	}
	return inbound.Request{Model: native.Model, Sent: sent, Encoder: compaction{native}}, nil
}

// Encode implements inbound.Encoder.
func (c compaction) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	at, ok := v.NativePath(compact, t)
	if !ok {
		return provider.Request{}, nil, dialect.NotServed(t, "/v1"+compact)
	}
	if t.Guarded {
		return provider.Request{}, nil, notGuarded()
	}
	return nativeRequest(at, c.NativeRequest, t, v.Name), nil, nil
}

// notGuarded is the error of a request whose answer a guardrail must look at, and cannot.
func notGuarded() error {
	return openai.CodeNotGuarded.On("model",
		"A guardrail applies to this key, and cannot look at the answer of this model to this request.")
}

// referOf is stateOf for a request that stores nothing.
func referOf(sent *openai.Members) inbound.State {
	if sent.Get("previous_response_id").Kind() == '"' {
		return inbound.Stateful
	}
	return inbound.Stateless
}

// stateOf returns what a request wants of stored state. As at OpenAI, a response is stored unless the request says
// otherwise.
func stateOf(sent *openai.Members) inbound.State {
	if v := sent.Get("background"); v != nil && v.Kind() != 'f' && v.Kind() != 'n' {
		return inbound.Background
	}
	if sent.Get("store").Kind() != 'f' {
		return inbound.Stateful
	}
	for _, name := range [...]string{"previous_response_id", "conversation"} {
		if v := sent.Get(name); v != nil && v.Kind() != 'n' {
			return inbound.Stateful
		}
	}
	if bytes.Contains(sent.Body, []byte("item_reference")) {
		return inbound.Stateful
	}
	return inbound.Stateless
}

// Encode implements inbound.Encoder.
func (r *request) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if at, ok := v.NativePath(path, t); ok && (!t.Guarded || v.Chat == nil) {
		if t.Guarded {
			return provider.Request{}, nil, notGuarded()
		}
		return nativeRequest(at, r.NativeRequest, t, v.Name), nil, nil
	}
	if v.Chat == nil {
		return provider.Request{}, nil, dialect.NotServed(t, "/v1"+path)
	}
	return r.Translation.Encode(v, t, r.translate)
}

// A body is the body of a request. A value that passes as it is stays raw.
type body struct {
	Model              string                    `json:"model"`
	Input              input                     `json:"input"`
	Instructions       string                    `json:"instructions"`
	Stream             bool                      `json:"stream"`
	MaxOutputTokens    *int64                    `json:"max_output_tokens"`
	Tools              []jsontext.Value          `json:"tools"`
	ToolChoice         jsontext.Value            `json:"tool_choice"`
	Text               textOptions               `json:"text"`
	Reasoning          reasoningOptions          `json:"reasoning"`
	TopLogprobs        jsontext.Value            `json:"top_logprobs"`
	Include            []string                  `json:"include"`
	Truncation         string                    `json:"truncation"`
	Store              bool                      `json:"store"`
	Background         bool                      `json:"background"`
	PreviousResponseID string                    `json:"previous_response_id"`
	Conversation       jsontext.Value            `json:"conversation"`
	Prompt             jsontext.Value            `json:"prompt"`
	Temperature        jsontext.Value            `json:"temperature"`
	TopP               jsontext.Value            `json:"top_p"`
	ParallelToolCalls  jsontext.Value            `json:"parallel_tool_calls"`
	User               jsontext.Value            `json:"user"`
	SafetyIdentifier   jsontext.Value            `json:"safety_identifier"`
	PromptCacheKey     jsontext.Value            `json:"prompt_cache_key"`
	ServiceTier        jsontext.Value            `json:"service_tier"`
	StreamOptions      jsontext.Value            `json:"stream_options"`
	Metadata           jsontext.Value            `json:"metadata"`
	Others             map[string]jsontext.Value `json:",embed"`
}

type textOptions struct {
	Format    format `json:"format"`
	Verbosity string `json:"verbosity"`
}

type format struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"schema"`
	Strict      jsontext.Value `json:"strict"`
}

type reasoningOptions struct {
	Effort string `json:"effort"`
}

// input is a list of items. A string is one message of the user.
type input []item

// An item is one item of a conversation. Type determines which members are set.
type item struct {
	Type      string  `json:"type"`
	ID        string  `json:"id"`
	Role      string  `json:"role"`
	Content   content `json:"content"`
	CallID    string  `json:"call_id"`
	Name      string  `json:"name"`
	Namespace string  `json:"namespace"`
	Arguments text    `json:"arguments"`
	Input     string  `json:"input"`  // of a custom tool call
	Output    content `json:"output"` // of a call
	Summary   content `json:"summary"`

	Status    string           `json:"status"`
	Action    jsontext.Value   `json:"action"`    // of a call of a shell or a computer
	Operation jsontext.Value   `json:"operation"` // of a call that applies a patch
	Execution string           `json:"execution"` // of a search for tools
	Tools     []jsontext.Value `json:"tools"`
	Author    string           `json:"author"`
	Recipient string           `json:"recipient"`
}

// text is a string, or any other value as its JSON.
type text string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (t *text) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == '"' {
		return json.UnmarshalDecode(dec, (*string)(t))
	}
	v, err := dec.ReadValue()
	if v.Kind() != 'n' {
		*t = text(v)
	}
	return err
}

// content is a list of parts. A string is one part of text, and an object is one part.
type content []part

type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL string `json:"image_url"`
	Detail   string `json:"detail"`
	FileID   string `json:"file_id"`
	Filename string `json:"filename"`
	FileData string `json:"file_data"`
	FileURL  string `json:"file_url"`

	InputAudio jsontext.Value `json:"input_audio"`
	Stdout     string         `json:"stdout"` // of a command in a shell
	Stderr     string         `json:"stderr"`
	Outcome    outcome        `json:"outcome"`
}

// An outcome says how a command in a shell ended.
type outcome struct {
	Type     string `json:"type"`
	ExitCode int64  `json:"exit_code"`
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (in *input) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '"' {
		return json.UnmarshalDecode(dec, (*[]item)(in))
	}
	*in = input{{Type: "message", Role: "user"}}
	return json.UnmarshalDecode(dec, &(*in)[0].Content)
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *content) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case '"':
	case '{':
		*c = make(content, 1)
		return json.UnmarshalDecode(dec, &(*c)[0])
	default:
		return json.UnmarshalDecode(dec, (*[]part)(c))
	}
	*c = content{{Type: "input_text"}}
	return json.UnmarshalDecode(dec, &(*c)[0].Text)
}

func notRead(err error) error { return compose.Error(err, compose.Bracketed) }
