package openai

import "github.com/go-json-experiment/json/jsontext"

// A Chat is the body of a chat completion request, with the types that translating codecs need. A null member is
// treated as absent.
type Chat struct {
	Messages            []Message
	MaxTokens           *int64
	MaxCompletionTokens *int64
	Temperature         *float64
	TopP                *float64
	FrequencyPenalty    *float64
	PresencePenalty     *float64
	N                   *int64
	Stop                Strings
	Seed                *int64
	LogitBias           jsontext.Value
	Logprobs            *bool
	TopLogprobs         *int64
	Modalities          []string
	Audio               jsontext.Value
	ResponseFormat      *ResponseFormat
	Tools               []Tool
	ToolChoice          *ToolChoice
	ParallelToolCalls   *bool
	ReasoningEffort     string
	Verbosity           string
	User                string
	SafetyIdentifier    string
	ServiceTier         string
	Prediction          jsontext.Value
	Metadata            jsontext.Value
	Store               *bool
	WebSearchOptions    jsontext.Value
	Functions           jsontext.Value
	FunctionCall        jsontext.Value

	// Thinking is Anthropic's own member, which its clients send through OpenAI's interface.
	Thinking jsontext.Value
	TopK     *int64
}

// OutputLimit returns the client's limit of output tokens, or 0 if there is none.
func (c *Chat) OutputLimit() int64 {
	if c.MaxCompletionTokens != nil {
		return *c.MaxCompletionTokens
	}
	if c.MaxTokens != nil {
		return *c.MaxTokens
	}
	return 0
}

// LimitParam returns the name of the member with OutputLimit.
func (c *Chat) LimitParam() string {
	if c.MaxCompletionTokens != nil {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// A Message is one message of a conversation.
type Message struct {
	Role         string
	Content      Content
	Name         string
	Refusal      string
	ToolCalls    []ToolCall
	ToolCallID   string
	FunctionCall *FunctionCall
	Audio        jsontext.Value // of an earlier answer, by its id
	CacheControl jsontext.Value
	// ReasoningContent and ThinkingBlocks are extensions: the client returns what an earlier answer of the gateway had.
	ReasoningContent string
	ThinkingBlocks   jsontext.Value
}

// Content is a message's content: a string becomes one text part, null becomes none.
type Content []Part

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

// A Part is one part of a message's content. Type determines which member is set.
type Part struct {
	Type         string
	Text         string
	Refusal      string
	ImageURL     *ImageURL
	InputAudio   *InputAudio
	File         *File
	CacheControl jsontext.Value
	// Thought is the whole part if it is thinking in Claude's form: of the type redacted_thinking, or of the type
	// thinking with a text.
	Thought jsontext.Value
}

// An ImageURL is an image by http(s) URL or data URI.
type ImageURL struct {
	URL    string
	Detail string
}

// InputAudio is audio in base64. Format is empty if the client sent only a string: see Object.RejectDeviations.
type InputAudio struct {
	Data   string
	Format string
}

// A File is a file by id, or its content in base64 or as a data URI.
type File struct {
	FileID   string
	Filename string
	FileData string
}

// A ToolCall is a call that the model made.
type ToolCall struct {
	ID       string
	Type     string
	Function FunctionCall
	// ExtraContent is Google's extension: data of the call that must come back with it.
	ExtraContent jsontext.Value
	// Carried is the data in the call's id, or nil: see Carrier.
	Carried jsontext.Value
}

// A FunctionCall names a function. Arguments should be a JSON object, but may be any text.
type FunctionCall struct {
	Name      string
	Arguments string
}

// A Tool is something the model may call. Only Type "function" has a Function.
type Tool struct {
	Type         string
	Function     Function
	CacheControl jsontext.Value
}

// A Function describes a function; Parameters is a JSON Schema, or nil.
type Function struct {
	Name        string
	Description string
	Parameters  jsontext.Value
	Strict      *bool
}

// A ToolChoice is one of the modes none, auto and required, or a named function (mode "function").
type ToolChoice struct {
	Mode string
	Name string
	// Allowed narrows the tools to these names (OpenAI's allowed_tools), with Mode auto or required.
	Allowed []string
}

// A ResponseFormat is the format of the answer: text, json_object or json_schema.
type ResponseFormat struct {
	Type       string
	JSONSchema *JSONSchema
}

// A JSONSchema is the schema of a structured answer.
type JSONSchema struct {
	Name        string
	Description string
	Strict      *bool
	Schema      jsontext.Value
}

// Strings is a list that may be written as one string; null is the empty list.
type Strings []string
