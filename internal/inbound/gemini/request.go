package gemini

import (
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/compose"
	"github.com/modelgate/modelgate/internal/provider"
)

// maxModelName bounds the name of a model, which errors and logs repeat.
const maxModelName = 256

// A body is the body of a request. A value that passes as it is stays raw.
type body struct {
	Contents          []content        `json:"contents"`
	SystemInstruction *content         `json:"systemInstruction"`
	Tools             []tool           `json:"tools"`
	ToolConfig        toolConfig       `json:"toolConfig"`
	GenerationConfig  generationConfig `json:"generationConfig"`
	CachedContent     string           `json:"cachedContent"`
	ServiceTier       string           `json:"serviceTier"`

	Others map[string]jsontext.Value `json:",embed"`
}

type content struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

// A part is one part of a content: one of its members is set, besides those about thoughts.
type part struct {
	Text             *string         `json:"text"`
	InlineData       *blob           `json:"inlineData"`
	FileData         *file           `json:"fileData"`
	FunctionCall     *functionCall   `json:"functionCall"`
	FunctionResponse *functionResult `json:"functionResponse"`
	Thought          bool            `json:"thought"`
	ThoughtSignature string          `json:"thoughtSignature"`

	VideoMetadata   jsontext.Value            `json:"videoMetadata"`
	MediaResolution jsontext.Value            `json:"mediaResolution"`
	PartMetadata    jsontext.Value            `json:"partMetadata"`
	Others          map[string]jsontext.Value `json:",embed"`
}

type blob struct {
	MIMEType    string `json:"mimeType"`
	Data        string `json:"data"`
	DisplayName string `json:"displayName"`
}

type file struct {
	MIMEType string `json:"mimeType"`
	URI      string `json:"fileUri"`
}

type functionCall struct {
	ID   string         `json:"id"`
	Name string         `json:"name"`
	Args jsontext.Value `json:"args"`

	signature string // of the part
}

type functionResult struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Response jsontext.Value `json:"response"`
	Parts    []part         `json:"parts"`
}

// A tool has functions of the client, or is one that Google runs. Then its name is the member's.
type tool struct {
	Functions []declaration             `json:"functionDeclarations"`
	Others    map[string]jsontext.Value `json:",embed"`
}

type declaration struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  jsontext.Value `json:"parameters"` // a schema of OpenAPI's
	JSONSchema  jsontext.Value `json:"parametersJsonSchema"`
}

type toolConfig struct {
	FunctionCalling struct {
		Mode    string   `json:"mode"`
		Allowed []string `json:"allowedFunctionNames"`
	} `json:"functionCallingConfig"`
}

type generationConfig struct {
	Temperature      jsontext.Value `json:"temperature"`
	TopP             jsontext.Value `json:"topP"`
	TopK             jsontext.Value `json:"topK"`
	CandidateCount   jsontext.Value `json:"candidateCount"`
	MaxOutputTokens  jsontext.Value `json:"maxOutputTokens"`
	StopSequences    jsontext.Value `json:"stopSequences"`
	Seed             jsontext.Value `json:"seed"`
	PresencePenalty  jsontext.Value `json:"presencePenalty"`
	FrequencyPenalty jsontext.Value `json:"frequencyPenalty"`
	ResponseLogprobs jsontext.Value `json:"responseLogprobs"`
	Logprobs         jsontext.Value `json:"logprobs"`
	MIMEType         string         `json:"responseMimeType"`
	Schema           jsontext.Value `json:"responseSchema"`
	JSONSchema       jsontext.Value `json:"responseJsonSchema"`
	Modalities       []string       `json:"responseModalities"`
	Thinking         thinkingConfig `json:"thinkingConfig"`

	Others map[string]jsontext.Value `json:",embed"`
}

type thinkingConfig struct {
	Include bool   `json:"includeThoughts"`
	Budget  *int64 `json:"thinkingBudget"`
	Level   string `json:"thinkingLevel"`
}

// A request is a client's request. It is translated when a vendor needs it that does not speak the dialect.
type request struct {
	sent    provider.NativeRequest // as the client sent it
	members *openai.Members        // of it
	whole   []byte                 // of a count: the request whose tokens are counted; nil: the body is it
	model   string

	*body
	compose.Translation
}

func parseUnary(h inbound.Head, data []byte) (inbound.Request, error) {
	return parse(h, provider.NativeRequest{Body: data})
}

func parseStreamed(h inbound.Head, data []byte) (inbound.Request, error) {
	return parse(h, provider.NativeRequest{Body: data, Stream: true})
}

func parse(h inbound.Head, sent provider.NativeRequest) (inbound.Request, error) {
	sent.Carrier = h.Carrier
	model, _, _ := split(h.Path)
	members, err := object(model, sent.Body)
	if err != nil {
		return inbound.Request{}, err
	}
	if contents := members.Get("contents"); contents.Kind() != '[' || string(contents) == "[]" {
		return inbound.Request{}, openai.CodeMissingRequiredParameter.On("contents",
			"contents: Expected a list with at least one content.")
	}
	return inbound.Request{Model: model, Stream: sent.Stream, IncludeUsage: true,
		Encoder: &request{sent: sent, members: members, model: model}, Echo: thinkingOf(members), Sent: members}, nil
}

// object reads a body, and checks the name of the model.
func object(model string, data []byte) (*openai.Members, error) {
	if len(model) > maxModelName {
		return nil, openai.CodeInvalidValue.On("model",
			"model: The name may have %d bytes at most.", maxModelName)
	}
	members, err := openai.CheckMembers(data)
	if err != nil {
		return nil, err
	}
	return members, requestShape.checkSpelling(data)
}

// either returns the member of an object with a name in camel case or with underscores.
func either(of gjson.Result, camel, underscores string) gjson.Result {
	if v := of.Get(camel); v.Exists() {
		return v
	}
	return of.Get(underscores)
}

// configOf returns the configuration in a request.
func configOf(sent *openai.Members) gjson.Result {
	config := sent.Get("generationConfig")
	if config == nil {
		config = sent.Get("generation_config")
	}
	return gjson.ParseBytes(config)
}

// thinkingOf returns what a request says of its thoughts, which the writer of the answer needs.
func thinkingOf(sent *openai.Members) []byte {
	return []byte(either(configOf(sent), "thinkingConfig", "thinking_config").Raw)
}

// wantsThoughts reports whether a client wants to read the model's thoughts.
func wantsThoughts(echo []byte) bool {
	return either(gjson.ParseBytes(echo), "includeThoughts", "include_thoughts").Bool()
}

func required(param string) error {
	return openai.CodeMissingRequiredParameter.On(param, "%s: The field is required.", param)
}

func notRead(err error) error { return compose.Error(err, compose.Bracketed) }

// Encode implements inbound.Encoder.
func (r *request) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if r.isNative(v, t) {
		return v.Gemini.Encode(r.sent, t)
	}
	if v.Chat == nil {
		return provider.Request{}, nil, openai.CodeUnsupportedEndpoint.On("model",
			"The provider '%s' does not generate content. Choose another model.", t.Config.GetName())
	}
	return r.Translation.Encode(v, t, r.translate)
}

// isNative reports whether the vendor itself speaks the dialect for the model.
func (r *request) isNative(v *provider.Provider, t provider.Target) bool {
	return v.Gemini != nil && v.Gemini.Serves(r.sent, t)
}

// asChat are the members of generationConfig that the estimate of a request reads, by their names in a chat
// completion.
var asChat = map[string][2]string{
	"n": {"candidateCount", "candidate_count"}, "max_tokens": {"maxOutputTokens", "max_output_tokens"},
}

// Get returns a member as a chat completion has it, to estimate the request's use.
func (r *request) Get(name string) jsontext.Value {
	if names, ok := asChat[name]; ok {
		v := either(configOf(r.members), names[0], names[1])
		if v.Type == gjson.String { // Google takes numbers as texts too
			return jsontext.Value(v.Str)
		}
		return jsontext.Value(v.Raw)
	}
	return nil
}
