package gemini

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/internal/reported"
)

// A response is a GenerateContentResponse: a whole answer, or a piece of a streamed one.
type response struct {
	Candidates     []candidate     `json:"candidates"`
	PromptFeedback promptFeedback  `json:"promptFeedback"`
	Usage          *reported.Usage `json:"usageMetadata"`
	ResponseID     string          `json:"responseId"`
	Error          jsontext.Value  `json:"error"`
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

// A partialArg is a piece of streamed arguments: a value within them, or a part of a string.
type partialArg struct {
	Path         string         `json:"jsonPath"`
	String       *string        `json:"stringValue"`
	Number       jsontext.Value `json:"numberValue"`
	Bool         jsontext.Value `json:"boolValue"`
	WillContinue bool           `json:"willContinue"`
}

// logprobs are the vendor's log probabilities: of the chosen tokens, and of the likeliest at each place.
type logprobs struct {
	Chosen []tokenProb `json:"chosenCandidates"`
	Top    []struct {
		Candidates []tokenProb `json:"candidates"`
	} `json:"topCandidates"`
}
