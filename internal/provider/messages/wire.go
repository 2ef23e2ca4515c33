package messages

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Request is the body of a request in the Messages dialect. Encode fills it; a vendor that says the model or the
// streaming elsewhere clears those members before it asks for the JSON.
type Request struct {
	Model         string         `json:"model,omitzero"`
	MaxTokens     int64          `json:"max_tokens"`
	Stream        bool           `json:"stream,omitzero"`
	System        []block        `json:"system,omitempty"`
	Messages      []turn         `json:"messages"`
	Tools         []tool         `json:"tools,omitempty"`
	ToolChoice    *toolChoice    `json:"tool_choice,omitzero"`
	StopSequences []string       `json:"stop_sequences,omitempty"`
	Temperature   *float64       `json:"temperature,omitzero"`
	TopP          *float64       `json:"top_p,omitzero"`
	TopK          *int64         `json:"top_k,omitzero"`
	Thinking      *thinking      `json:"thinking,omitzero"`
	OutputConfig  *outputConfig  `json:"output_config,omitzero"`
	Metadata      *metadata      `json:"metadata,omitzero"`
	ServiceTier   string         `json:"service_tier,omitzero"`
	CacheControl  jsontext.Value `json:"cache_control,omitzero"`

	// Dropped names the members of the client's request that are not in it.
	Dropped []string `json:"-"`
}

// JSON returns the body. What the client sent as JSON keeps the order of its members.
func (r *Request) JSON() ([]byte, error) {
	return json.Marshal(r, jsontext.PreserveRawStrings(true))
}

type metadata struct {
	UserID string `json:"user_id"`
}

type outputConfig struct {
	Effort string        `json:"effort,omitzero"`
	Format *outputFormat `json:"format,omitzero"`
}

type outputFormat struct {
	Type   string         `json:"type"`
	Schema jsontext.Value `json:"schema"`
}

// A turn is one message: the user's and the assistant's alternate.
type turn struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// A block is one content block. Which members are set follows from Type.
type block struct {
	Type         string         `json:"type"`
	Text         string         `json:"text,omitzero"`
	Source       *source        `json:"source,omitzero"`
	Title        string         `json:"title,omitzero"`
	ID           string         `json:"id,omitzero"`
	Name         string         `json:"name,omitzero"`
	Input        jsontext.Value `json:"input,omitzero"`
	ToolUseID    string         `json:"tool_use_id,omitzero"`
	Content      resultContent  `json:"content,omitzero"`
	IsError      bool           `json:"is_error,omitzero"`
	CacheControl jsontext.Value `json:"cache_control,omitzero"`

	// signed, where it is set, is the whole block as the vendor once gave it; any change would break its signature.
	signed jsontext.Value
}

// MarshalJSONTo writes a signed block as it came and any other by its members.
func (b block) MarshalJSONTo(enc *jsontext.Encoder) error {
	if b.signed != nil {
		return enc.WriteValue(b.signed)
	}
	type members block // without this method
	return json.MarshalEncode(enc, members(b))
}

// resultContent is what a tool gave: plain text is written as a string, anything else as blocks, nothing not at all.
type resultContent []block

// MarshalJSONTo writes the shortest form.
func (c resultContent) MarshalJSONTo(enc *jsontext.Encoder) error {
	if len(c) == 1 && c[0].Type == "text" && c[0].CacheControl == nil {
		return enc.WriteToken(jsontext.String(c[0].Text))
	}
	return json.MarshalEncode(enc, []block(c))
}

// A source is where an image or a document comes from.
type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitzero"`
	Data      string `json:"data,omitzero"`
	URL       string `json:"url,omitzero"`
}

type tool struct {
	Name         string         `json:"name"`
	Description  string         `json:"description,omitzero"`
	InputSchema  jsontext.Value `json:"input_schema"`
	Strict       bool           `json:"strict,omitzero"`
	CacheControl jsontext.Value `json:"cache_control,omitzero"`
}

type toolChoice struct {
	Type            string `json:"type"`
	Name            string `json:"name,omitzero"`
	DisableParallel bool   `json:"disable_parallel_tool_use,omitzero"`
}

// forces reports whether the choice makes the model call a tool.
func (t *toolChoice) forces() bool {
	return t != nil && (t.Type == "any" || t.Type == "tool")
}
