package gemini

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// A Request is the body of a request. Encode fills it; a vendor that says something elsewhere clears that member
// before it asks for the JSON.
type Request struct {
	SystemInstruction *content         `json:"systemInstruction,omitzero"`
	Contents          []content        `json:"contents"`
	Tools             []jsontext.Value `json:"tools,omitempty"`
	ToolConfig        *toolConfig      `json:"toolConfig,omitzero"`
	SafetySettings    jsontext.Value   `json:"safetySettings,omitzero"`
	GenerationConfig  jsontext.Value   `json:"generationConfig,omitzero"`
	CachedContent     jsontext.Value   `json:"cachedContent,omitzero"`
	ModelArmorConfig  jsontext.Value   `json:"modelArmorConfig,omitzero"`
	Labels            jsontext.Value   `json:"labels,omitzero"`
	ServiceTier       string           `json:"serviceTier,omitzero"`

	// Dropped names the members of the client's request that are not in it.
	Dropped []string `json:"-"`
	// Adjusted names those that are in it in another form.
	Adjusted []string `json:"-"`
}

// JSON returns the body. What the client sent as JSON keeps the order of its members. An error is an *openai.Error,
// and only a defect of this package causes it.
func (r *Request) JSON() ([]byte, error) {
	body, err := json.Marshal(r, jsontext.PreserveRawStrings(true), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, &openai.Error{Status: http.StatusInternalServerError, Type: openai.TypeServer,
			Message: "The request could not be translated: " + err.Error()}
	}
	return body, nil
}

type content struct {
	Role  string `json:"role,omitzero"`
	Parts []part `json:"parts"`
}

// A part is one part of a content; one of its members is set, and with it perhaps the signature.
type part struct {
	Text             string          `json:"text,omitzero"`
	InlineData       *inlineData     `json:"inlineData,omitzero"`
	FileData         *fileData       `json:"fileData,omitzero"`
	FunctionCall     *functionCall   `json:"functionCall,omitzero"`
	FunctionResponse *functionResult `json:"functionResponse,omitzero"`
	ThoughtSignature string          `json:"thoughtSignature,omitzero"`
}

type fileData struct {
	MIMEType string `json:"mimeType,omitzero"`
	FileURI  string `json:"fileUri"`
}

type functionCall struct {
	ID   string         `json:"id,omitzero"`
	Name string         `json:"name"`
	Args jsontext.Value `json:"args"`
}

type functionResult struct {
	ID       string         `json:"id,omitzero"`
	Name     string         `json:"name"`
	Response jsontext.Value `json:"response"`
	Parts    []part         `json:"parts,omitempty"`
}

type declarations struct {
	Functions []declaration `json:"functionDeclarations"`
}

type declaration struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parametersJsonSchema,omitzero"`
}

type toolConfig struct {
	FunctionCalling callingConfig `json:"functionCallingConfig"`
}

type callingConfig struct {
	Mode    string   `json:"mode"`
	Allowed []string `json:"allowedFunctionNames,omitempty"`
}
