package openai

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Chat is the body of a chat completion request, typed as far as the codecs that translate it need. Members that are
// null are as if absent.
type Chat struct {
	Messages            []Message       `json:"messages"`
	MaxTokens           *int64          `json:"max_tokens"`
	MaxCompletionTokens *int64          `json:"max_completion_tokens"`
	Temperature         *float64        `json:"temperature"`
	TopP                *float64        `json:"top_p"`
	FrequencyPenalty    *float64        `json:"frequency_penalty"`
	PresencePenalty     *float64        `json:"presence_penalty"`
	N                   *int64          `json:"n"`
	Stop                Strings         `json:"stop"`
	Seed                *int64          `json:"seed"`
	LogitBias           jsontext.Value  `json:"logit_bias"`
	Logprobs            *bool           `json:"logprobs"`
	TopLogprobs         *int64          `json:"top_logprobs"`
	Modalities          []string        `json:"modalities"`
	Audio               jsontext.Value  `json:"audio"`
	ResponseFormat      *ResponseFormat `json:"response_format"`
	Tools               []Tool          `json:"tools"`
	ToolChoice          *ToolChoice     `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	ReasoningEffort     string          `json:"reasoning_effort"`
	Verbosity           string          `json:"verbosity"`
	User                string          `json:"user"`
	SafetyIdentifier    string          `json:"safety_identifier"`
	ServiceTier         string          `json:"service_tier"`
	Prediction          jsontext.Value  `json:"prediction"`
	Metadata            jsontext.Value  `json:"metadata"`
	Store               *bool           `json:"store"`
	WebSearchOptions    jsontext.Value  `json:"web_search_options"`
	Functions           jsontext.Value  `json:"functions"`
	FunctionCall        jsontext.Value  `json:"function_call"`

	// Thinking is Anthropic's own member, which clients of that vendor send through OpenAI's interface.
	Thinking jsontext.Value `json:"thinking"`
	TopK     *int64         `json:"top_k"`
}

// OutputLimit returns the most tokens the client wants, or 0 where it does not say.
func (c *Chat) OutputLimit() int64 {
	if c.MaxCompletionTokens != nil {
		return *c.MaxCompletionTokens
	}
	if c.MaxTokens != nil {
		return *c.MaxTokens
	}
	return 0
}

// A Message is one message of a conversation.
type Message struct {
	Role         string         `json:"role"`
	Content      Content        `json:"content"`
	Name         string         `json:"name"`
	Refusal      string         `json:"refusal"`
	ToolCalls    []ToolCall     `json:"tool_calls"`
	ToolCallID   string         `json:"tool_call_id"`
	FunctionCall *FunctionCall  `json:"function_call"`
	CacheControl jsontext.Value `json:"cache_control"`
	// ReasoningContent and ThinkingBlocks are extensions: what the gateway gave with an earlier answer, echoed.
	ReasoningContent string         `json:"reasoning_content"`
	ThinkingBlocks   jsontext.Value `json:"thinking_blocks"`
}

// Content is a message's content: a string becomes one text part, null becomes none.
type Content []Part

// UnmarshalJSONFrom reads a string, an array of parts, or null.
func (c *Content) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '"' {
		return json.UnmarshalDecode(dec, (*[]Part)(c))
	}
	var s string
	if err := json.UnmarshalDecode(dec, &s); err != nil {
		return err
	}
	*c = Content{{Type: "text", Text: s}}
	return nil
}

// Text returns the text parts in order, one after another.
func (c Content) Text() string {
	if len(c) == 1 {
		return c[0].Text
	}
	var s []byte
	for _, p := range c {
		s = append(s, p.Text...)
	}
	return string(s)
}

// A Part is one part of a message's content. Which member is set follows from Type.
type Part struct {
	Type         string         `json:"type"`
	Text         string         `json:"text"`
	Refusal      string         `json:"refusal"`
	ImageURL     *ImageURL      `json:"image_url"`
	InputAudio   *InputAudio    `json:"input_audio"`
	File         *File          `json:"file"`
	CacheControl jsontext.Value `json:"cache_control"`
}

// An ImageURL is an image by http(s) URL or data URI.
type ImageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail"`
}

// InputAudio is audio in base64.
type InputAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

// A File is a file by id, or its content in base64 or as a data URI.
type File struct {
	FileID   string `json:"file_id"`
	Filename string `json:"filename"`
	FileData string `json:"file_data"`
}

// A ToolCall is a call that the model made.
type ToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function FunctionCall `json:"function"`
}

// A FunctionCall names a function; Arguments is a string that should, but need not, hold a JSON object.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// A Tool is something the model may call. Only Type "function" has a Function.
type Tool struct {
	Type         string         `json:"type"`
	Function     Function       `json:"function"`
	CacheControl jsontext.Value `json:"cache_control"`
}

// A Function describes a function; Parameters is a JSON Schema, or nil.
type Function struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  jsontext.Value `json:"parameters"`
	Strict      *bool          `json:"strict"`
}

// A ToolChoice is one of the modes none, auto and required, or a named function (mode "function").
type ToolChoice struct {
	Mode string
	Name string
	// Allowed narrows the tools to these names (OpenAI's allowed_tools), with Mode auto or required.
	Allowed []string
}

// UnmarshalJSONFrom reads the string or the object form.
func (t *ToolChoice) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == '"' {
		return json.UnmarshalDecode(dec, &t.Mode)
	}
	type named struct {
		Name string `json:"name"`
	}
	var v struct {
		Type         string `json:"type"`
		Function     named  `json:"function"`
		Custom       named  `json:"custom"`
		AllowedTools struct {
			Mode  string `json:"mode"`
			Tools []struct {
				Function named `json:"function"`
			} `json:"tools"`
		} `json:"allowed_tools"`
	}
	if err := json.UnmarshalDecode(dec, &v); err != nil {
		return err
	}
	switch v.Type {
	case "allowed_tools":
		t.Mode = v.AllowedTools.Mode
		for _, a := range v.AllowedTools.Tools {
			t.Allowed = append(t.Allowed, a.Function.Name)
		}
	default:
		t.Mode, t.Name = v.Type, v.Function.Name+v.Custom.Name
	}
	return nil
}

// A ResponseFormat is how the answer is to be shaped: text, json_object or json_schema.
type ResponseFormat struct {
	Type       string      `json:"type"`
	JSONSchema *JSONSchema `json:"json_schema"`
}

// A JSONSchema is the schema of a structured answer.
type JSONSchema struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Strict      *bool          `json:"strict"`
	Schema      jsontext.Value `json:"schema"`
}

// Strings is a list that may be written as one string; null is the empty list.
type Strings []string

// UnmarshalJSONFrom reads a string, an array of strings, or null.
func (s *Strings) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '"' {
		return json.UnmarshalDecode(dec, (*[]string)(s))
	}
	var one string
	if err := json.UnmarshalDecode(dec, &one); err != nil {
		return err
	}
	*s = Strings{one}
	return nil
}
