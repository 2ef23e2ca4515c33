package gemini

import (
	"cmp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// lenient reads a vendor's JSON, which need not be as strict as what clients send.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// A response is a GenerateContentResponse: a whole answer, or a piece of a streamed one.
type response struct {
	Candidates     []candidate    `json:"candidates"`
	PromptFeedback promptFeedback `json:"promptFeedback"`
	Usage          *usage         `json:"usageMetadata"`
	ResponseID     string         `json:"responseId"`
	Error          jsontext.Value `json:"error"`
}

type promptFeedback struct {
	BlockReason enum   `json:"blockReason"`
	Message     string `json:"blockReasonMessage"`
}

// refusal returns what the client reads where its prompt was refused.
func (p *promptFeedback) refusal() string {
	text := "Prompt blocked: " + string(p.BlockReason)
	if p.Message != "" {
		text += ". " + p.Message
	}
	return text
}

type candidate struct {
	Index   *int64 `json:"index"`
	Content struct {
		Parts []answerPart `json:"parts"`
	} `json:"content"`
	FinishReason      enum           `json:"finishReason"`
	FinishMessage     string         `json:"finishMessage"`
	CitationMetadata  jsontext.Value `json:"citationMetadata"`
	GroundingMetadata jsontext.Value `json:"groundingMetadata"`
	LogprobsResult    *logprobs      `json:"logprobsResult"`
}

type answerPart struct {
	Text             string      `json:"text"`
	Thought          bool        `json:"thought"`
	ThoughtSignature string      `json:"thoughtSignature"`
	FunctionCall     *answerCall `json:"functionCall"`
	InlineData       *inlineData `json:"inlineData"`
	FileData         *struct {
		URI string `json:"fileUri"`
	} `json:"fileData"`
}

type answerCall struct {
	ID           string         `json:"id"`
	Name         string         `json:"name"`
	Args         jsontext.Value `json:"args"`
	PartialArgs  []partialArg   `json:"partialArgs"`
	WillContinue bool           `json:"willContinue"`
}

type inlineData struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"`
}

// An enum is the name of a value of an enumeration, or its number in decimals.
type enum string

// UnmarshalJSONFrom reads a string or a number; anything else is no value.
func (e *enum) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	switch v.Kind() {
	case '"':
		name, err := jsontext.AppendUnquote(nil, v)
		*e = enum(name)
		return err
	case '0':
		*e = enum(v)
	}
	return nil
}

// usage is the vendor's count of tokens. Thoughts are not among the candidates', results of tools that the vendor ran
// are not in the prompt.
type usage struct {
	Prompt          provider.Count `json:"promptTokenCount"`
	Candidates      provider.Count `json:"candidatesTokenCount"`
	Thoughts        provider.Count `json:"thoughtsTokenCount"`
	ToolUsePrompt   provider.Count `json:"toolUsePromptTokenCount"`
	Cached          provider.Count `json:"cachedContentTokenCount"`
	Total           provider.Count `json:"totalTokenCount"`
	PromptBy        []modalities   `json:"promptTokensDetails"`
	ToolUsePromptBy []modalities   `json:"toolUsePromptTokensDetails"`
	CandidatesBy    []modalities   `json:"candidatesTokensDetails"`
	ServiceTier     string         `json:"serviceTier"`
	TrafficType     enum           `json:"trafficType"` // Vertex AI's word for it
}

type modalities struct {
	Modality enum           `json:"modality"`
	Tokens   provider.Count `json:"tokenCount"`
}

func (u *usage) openai() openai.Usage {
	return openai.Usage{
		PromptTokens:     int64(u.Prompt + u.ToolUsePrompt),
		CompletionTokens: int64(u.Candidates + u.Thoughts),
		TotalTokens:      int64(u.Total),
		CachedTokens:     int64(u.Cached),
		PromptAudio:      audioTokens(u.PromptBy) + audioTokens(u.ToolUsePromptBy),
		ReasoningTokens:  int64(u.Thoughts),
		CompletionAudio:  audioTokens(u.CandidatesBy),
	}
}

func audioTokens(by []modalities) int64 {
	var n provider.Count
	for _, m := range by {
		if m.Modality == "AUDIO" || m.Modality == "4" {
			n += m.Tokens
		}
	}
	return openai.Count(int64(n))
}

// tiers are OpenAI's names of the tiers of service that answers tell.
var tiers = map[string]string{
	"standard": "default", "flex": "flex", "priority": "priority", "ON_DEMAND_FLEX": "flex",
	"ON_DEMAND_PRIORITY": "priority",
}

// tier returns OpenAI's name of the tier that served the request, or nothing.
func (u *usage) tier() string { return tiers[cmp.Or(u.ServiceTier, string(u.TrafficType))] }
