package converse

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A request is the body of a Converse request. The model and the streaming are in the path.
type request struct {
	System           []block          `json:"system,omitempty"`
	Messages         []message        `json:"messages"`
	InferenceConfig  *inferenceConfig `json:"inferenceConfig,omitzero"`
	ToolConfig       *toolConfig      `json:"toolConfig,omitzero"`
	OutputConfig     *outputConfig    `json:"outputConfig,omitzero"`
	AdditionalFields jsontext.Value   `json:"additionalModelRequestFields,omitzero"`
	ResponseFields   jsontext.Value   `json:"additionalModelResponseFieldPaths,omitzero"`
	Guardrail        jsontext.Value   `json:"guardrailConfig,omitzero"`
	Performance      jsontext.Value   `json:"performanceConfig,omitzero"`
	PromptVariables  jsontext.Value   `json:"promptVariables,omitzero"`
	Metadata         jsontext.Value   `json:"requestMetadata,omitzero"`
	ServiceTier      jsontext.Value   `json:"serviceTier,omitzero"`
}

// json returns the body. What the client sent as JSON keeps the order of its members.
func (r *request) json() ([]byte, error) {
	return json.Marshal(r, jsontext.PreserveRawStrings(true))
}

// A message is one turn.
type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// A block is one content block, also of the system's and of a result. One member is set.
type block struct {
	Text             string            `json:"text,omitzero"`
	Image            *media            `json:"image,omitzero"`
	Document         *media            `json:"document,omitzero"`
	Audio            *media            `json:"audio,omitzero"`
	Video            *media            `json:"video,omitzero"`
	ToolUse          *toolUseBlock     `json:"toolUse,omitzero"`
	ToolResult       *toolResult       `json:"toolResult,omitzero"`
	ReasoningContent *reasoningContent `json:"reasoningContent,omitzero"`
	CachePoint       *cachePoint       `json:"cachePoint,omitzero"`
}

// isFile reports whether the block is a document or a video, which models restrict more than images.
func (b *block) isFile() bool { return b.Document != nil || b.Video != nil }

// media is an image, a document, a piece of audio or a video. Only documents have names.
type media struct {
	Format string      `json:"format"`
	Name   string      `json:"name,omitzero"`
	Source mediaSource `json:"source"`
}

// A mediaSource is the content in base64, or where it is.
type mediaSource struct {
	Bytes      string      `json:"bytes,omitzero"`
	S3Location *s3Location `json:"s3Location,omitzero"`
}

type s3Location struct {
	URI         string `json:"uri"`
	BucketOwner string `json:"bucketOwner,omitzero"`
}

type toolUseBlock struct {
	ToolUseID string         `json:"toolUseId"`
	Name      string         `json:"name"`
	Input     jsontext.Value `json:"input"`
}

type toolResult struct {
	ToolUseID string  `json:"toolUseId"`
	Content   []block `json:"content"`
	Status    string  `json:"status,omitzero"`
}

type reasoningContent struct {
	ReasoningText   *reasoningText `json:"reasoningText,omitzero"`
	RedactedContent []byte         `json:"redactedContent,omitempty"`
}

type reasoningText struct {
	Text      string `json:"text"`
	Signature string `json:"signature"`
}

type cachePoint struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitzero"`
}

type inferenceConfig struct {
	MaxTokens     int64    `json:"maxTokens,omitzero"`
	Temperature   *float64 `json:"temperature,omitzero"`
	TopP          *float64 `json:"topP,omitzero"`
	StopSequences []string `json:"stopSequences,omitempty"`
}

type toolConfig struct {
	Tools      []tool      `json:"tools"`
	ToolChoice *toolChoice `json:"toolChoice,omitzero"`
}

// A tool is a function, or a cache point after the ones before it.
type tool struct {
	ToolSpec   *toolSpec   `json:"toolSpec,omitzero"`
	CachePoint *cachePoint `json:"cachePoint,omitzero"`
}

type toolSpec struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitzero"`
	InputSchema inputSchema `json:"inputSchema"`
	Strict      bool        `json:"strict,omitzero"`
}

type inputSchema struct {
	JSON jsontext.Value `json:"json"`
}

// A toolChoice forces a call. Without one the model chooses.
type toolChoice struct {
	Any  *struct{}  `json:"any,omitzero"`
	Tool *namedTool `json:"tool,omitzero"`
}

type namedTool struct {
	Name string `json:"name"`
}

type outputConfig struct {
	TextFormat textFormat `json:"textFormat"`
}

type textFormat struct {
	Type      string `json:"type"`
	Structure struct {
		JSONSchema jsonSchema `json:"jsonSchema"`
	} `json:"structure"`
}

// A jsonSchema has the schema as text.
type jsonSchema struct {
	Schema      string `json:"schema"`
	Name        string `json:"name,omitzero"`
	Description string `json:"description,omitzero"`
}
