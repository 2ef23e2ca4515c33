package messages

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/compose"
	dialect "github.com/modelgate/modelgate/internal/inbound/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// A body is the body of a request. A value that passes as it is stays raw.
type body struct {
	Model         string           `json:"model"`
	Messages      []message        `json:"messages"`
	System        content          `json:"system"`
	MaxTokens     *int64           `json:"max_tokens"`
	Stream        bool             `json:"stream"`
	StopSequences []string         `json:"stop_sequences"`
	Temperature   jsontext.Value   `json:"temperature"`
	TopP          jsontext.Value   `json:"top_p"`
	TopK          jsontext.Value   `json:"top_k"`
	Tools         []jsontext.Value `json:"tools"`
	ToolChoice    *toolChoice      `json:"tool_choice"`
	Metadata      metadata         `json:"metadata"`
	Thinking      jsontext.Value   `json:"thinking"`
	OutputConfig  outputConfig     `json:"output_config"`
	OutputFormat  *format          `json:"output_format"` // the former place of the format
	ServiceTier   string           `json:"service_tier"`
	CacheControl  jsontext.Value   `json:"cache_control"`
	MCPServers    jsontext.Value   `json:"mcp_servers"`
	Container     jsontext.Value   `json:"container"`

	Others map[string]jsontext.Value `json:",embed"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
	ClearAt string  `json:"clear_at"` // of a system message
}

type metadata struct {
	UserID string `json:"user_id"`
}

type outputConfig struct {
	Effort string  `json:"effort"`
	Format *format `json:"format"`
}

type format struct {
	Type   string         `json:"type"`
	Schema jsontext.Value `json:"schema"`
}

type toolChoice struct {
	Type            string `json:"type"`
	Name            string `json:"name"`
	DisableParallel bool   `json:"disable_parallel_tool_use"`
}

// A tool is one of the client's. Anthropic's own tools have a type with a date.
type tool struct {
	Type         string         `json:"type"`
	Name         string         `json:"name"`
	Description  string         `json:"description"`
	InputSchema  jsontext.Value `json:"input_schema"`
	Strict       bool           `json:"strict"`
	CacheControl jsontext.Value `json:"cache_control"`
}

// content is a list of blocks. A string is one block of text.
type content []block

// A block is one block of content. Type determines which members are set.
type block struct {
	Type         string         `json:"type"`
	Text         string         `json:"text"`
	Source       blockSource    `json:"source"`
	Title        string         `json:"title"`
	Context      string         `json:"context"`
	ID           string         `json:"id"`
	Name         string         `json:"name"`
	Input        jsontext.Value `json:"input"`
	ToolUseID    string         `json:"tool_use_id"`
	Content      jsontext.Value `json:"content"` // of a tool's result, a document or a search result
	IsError      bool           `json:"is_error"`
	Thinking     string         `json:"thinking"`
	Signature    string         `json:"signature"`
	Data         string         `json:"data"`
	CacheControl jsontext.Value `json:"cache_control"`
	ToolName     string         `json:"tool_name"`     // of a reference to a tool
	Tool         toolChange     `json:"tool"`          // of a change of the tools
	Tabs         jsontext.Value `json:"tabs"`          // of the state of a browser
	StateChanges jsontext.Value `json:"state_changes"` // likewise
}

// A toolChange names a tool that is added or removed, or defines it.
type toolChange struct {
	Type       string         `json:"type"`
	Name       string         `json:"name"`
	ServerName string         `json:"server_name"`
	Definition jsontext.Value `json:"definition"`
}

// A blockSource is where an image or a document comes from. That of a search result is a string.
type blockSource struct {
	Type      string         `json:"type"`
	MediaType string         `json:"media_type"`
	Data      string         `json:"data"`
	URL       string         `json:"url"`
	FileID    string         `json:"file_id"`
	Content   jsontext.Value `json:"content"`
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (s *blockSource) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == '"' {
		return json.UnmarshalDecode(dec, &s.URL)
	}
	type plain blockSource
	return json.UnmarshalDecode(dec, (*plain)(s))
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *content) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '"' {
		return json.UnmarshalDecode(dec, (*[]block)(c))
	}
	var text string
	err := json.UnmarshalDecode(dec, &text)
	*c = content{{Type: "text", Text: text}}
	return err
}

// A head has the members that every request must have.
type head struct {
	Model     string         `json:"model"`
	Messages  jsontext.Value `json:"messages"`
	MaxTokens *int64         `json:"max_tokens"`
	Stream    bool           `json:"stream"`
}

func readHead(data []byte) (*head, error) {
	var h head
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, notRead(err)
	}
	switch {
	case h.Model == "":
		return nil, required("model")
	case h.Messages == nil:
		return nil, required("messages")
	case h.Messages.Kind() != '[' || string(h.Messages) == "[]":
		return nil, openai.CodeInvalidValue.On("messages",
			"messages: Input should be a list with at least one message.")
	}
	return &h, nil
}

func (h *head) checkLimit() error {
	switch {
	case h.MaxTokens == nil:
		return required("max_tokens")
	case *h.MaxTokens < 1:
		return openai.CodeInvalidValue.On("max_tokens",
			"max_tokens: Input should be greater than or equal to 1.")
	}
	return nil
}

func required(param string) error {
	return openai.CodeMissingRequiredParameter.On(param, "%s: Field required.", param)
}

func notRead(err error) error { return compose.Error(err, compose.Dotted) }

// A request is a client's request. It is translated when a vendor needs it that does not speak the dialect.
type request struct {
	sent provider.NativeRequest // as the client sent it

	*body
	compose.Translation
	added []jsontext.Value // tools that messages define
}

func parse(h inbound.Head, data []byte) (inbound.Request, error) {
	head, err := readHead(data)
	if err == nil {
		err = head.checkLimit()
	}
	if err != nil {
		return inbound.Request{}, err
	}
	return inbound.Request{Model: head.Model, Stream: head.Stream, IncludeUsage: true, Sent: openai.MembersOf(data),
		Encoder: &request{sent: provider.NativeRequest{Body: data, Betas: h.Betas, Stream: head.Stream,
			Carrier: h.Carrier}}}, nil
}

// Encode implements inbound.Encoder.
func (r *request) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if r.isNative(v, t) {
		return v.Messages.Encode(r.sent, t)
	}
	if v.Chat == nil {
		return provider.Request{}, nil, dialect.NotServed(t, "messages")
	}
	return r.Translation.Encode(v, t, r.translate)
}

// isNative reports whether the vendor itself speaks the dialect for the model and takes the request.
func (r *request) isNative(v *provider.Provider, t provider.Target) bool {
	return v.Messages != nil && v.Messages.Serves(r.sent, t)
}
