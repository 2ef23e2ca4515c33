package openai

import "github.com/go-json-experiment/json/jsontext"

// A Chat is the body of a chat completion request, typed as far as the codecs that translate it need. Members that are
// null are as if absent.
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

	// Thinking is Anthropic's own member, which clients of that vendor send through OpenAI's interface.
	Thinking jsontext.Value
	TopK     *int64
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

// LimitParam is the member that OutputLimit is from.
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
	// ReasoningContent and ThinkingBlocks are extensions: what the gateway gave with an earlier answer, echoed.
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

// A Part is one part of a message's content. Which member is set follows from Type.
type Part struct {
	Type         string
	Text         string
	Refusal      string
	ImageURL     *ImageURL
	InputAudio   *InputAudio
	File         *File
	CacheControl jsontext.Value
	// Thought is all of a part that holds thinking as Claude gives it: one of the type redacted_thinking, or of the type
	// thinking with a text.
	Thought jsontext.Value
}

// An ImageURL is an image by http(s) URL or data URI.
type ImageURL struct {
	URL    string
	Detail string
}

// InputAudio is audio in base64. Format is empty where there is only a string: see Object.Judge.
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
	// ExtraContent is an extension of Google's: what came with the call and must come back with it.
	ExtraContent jsontext.Value
	// Carried is what the call's id carried, or nil: see CarryID.
	Carried jsontext.Value
}

// A FunctionCall names a function; Arguments is a string that should, but need not, hold a JSON object.
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

// A ResponseFormat is how the answer is to be shaped: text, json_object or json_schema.
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
