package cohere

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A chatRequest is the body of POST /chat. Members that are raw are the vendor's own and pass as the client sent them.
type chatRequest struct {
	Model            string           `json:"model"`
	Stream           bool             `json:"stream"`
	Messages         []message        `json:"messages"`
	Documents        []jsontext.Value `json:"documents,omitempty"`
	Tools            []tool           `json:"tools,omitempty"`
	StrictTools      bool             `json:"strict_tools,omitzero"`
	ToolChoice       string           `json:"tool_choice,omitzero"`
	ResponseFormat   *responseFormat  `json:"response_format,omitzero"`
	Thinking         *thinking        `json:"thinking,omitzero"`
	MaxTokens        int64            `json:"max_tokens,omitzero"`
	StopSequences    []string         `json:"stop_sequences,omitempty"`
	Temperature      *float64         `json:"temperature,omitzero"`
	P                jsontext.Value   `json:"p,omitzero"`
	K                jsontext.Value   `json:"k,omitzero"`
	Seed             *int64           `json:"seed,omitzero"`
	FrequencyPenalty float64          `json:"frequency_penalty,omitzero"`
	PresencePenalty  float64          `json:"presence_penalty,omitzero"`
	Logprobs         bool             `json:"logprobs,omitzero"`
	CitationOptions  jsontext.Value   `json:"citation_options,omitzero"`
	SafetyMode       jsontext.Value   `json:"safety_mode,omitzero"`
	Priority         jsontext.Value   `json:"priority,omitzero"`
	RawPrompting     jsontext.Value   `json:"raw_prompting,omitzero"`
}

type message struct {
	Role       string  `json:"role"`
	ToolCallID string  `json:"tool_call_id,omitzero"`
	Content    content `json:"content,omitzero"`
	ToolPlan   string  `json:"tool_plan,omitzero"`
	ToolCalls  []call  `json:"tool_calls,omitempty"`
}

// content is written as a string if it is one text, and else as an array.
type content []part

// IsZero reports whether there is no content, not even an empty one.
func (c content) IsZero() bool { return c == nil }

// MarshalJSONTo implements json.MarshalerTo.
func (c content) MarshalJSONTo(enc *jsontext.Encoder) error {
	switch {
	case len(c) == 0:
		return enc.WriteToken(jsontext.String(""))
	case len(c) == 1 && c[0].Type == "text":
		return enc.WriteToken(jsontext.String(c[0].Text))
	}
	return json.MarshalEncode(enc, []part(c))
}

type part struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitzero"`
	Thinking string    `json:"thinking,omitzero"`
	ImageURL *imageURL `json:"image_url,omitzero"`
}

type imageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitzero"`
}

type call struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function callFunction `json:"function"`
}

type callFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
}

type responseFormat struct {
	Type       string         `json:"type"`
	JSONSchema jsontext.Value `json:"json_schema,omitzero"`
}

type thinking struct {
	Type        string `json:"type"`
	TokenBudget int64  `json:"token_budget,omitzero"`
}

// A document is text that the model may cite.
type document struct {
	Data documentData `json:"data"`
}

type documentData struct {
	Title string `json:"title,omitzero"`
	Text  string `json:"text"`
}
