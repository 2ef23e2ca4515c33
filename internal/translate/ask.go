package translate

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// WithModel returns a client's request with the model, if it names none. Every other byte stays as it is.
func WithModel(body []byte, model string) []byte {
	var members struct {
		Model jsontext.Value `json:"model"`
	}
	if err := json.Unmarshal(body, &members); err != nil || members.Model != nil {
		return body
	}
	open := bytes.IndexByte(body, '{') + 1
	out := openai.AppendString(append(bytes.Clone(body[:open]), `"model":`...), model)
	if rest := bytes.TrimLeft(body[open:], " \t\r\n"); !bytes.HasPrefix(rest, []byte("}")) {
		out = append(out, ',')
	}
	return append(out, body[open:]...)
}

// smallest are the smallest requests that there are, without their model.
var smallest = map[Endpoint]string{
	Chat:        `{"messages":[{"role":"user","content":"x"}]}`,
	Completions: `{"prompt":"x"}`,
	Embeddings:  `{"input":"x"}`,
	Responses:   `{"input":"x"}`,
	Messages:    `{"messages":[{"role":"user","content":"x"}],"max_tokens":1024}`,
	Gemini:      `{"contents":[{"parts":[{"text":"x"}]}]}`,
}

// Ask returns a client's request for the model, with a stream if stream is set, and with its usage if includeUsage
// is set. Nil is the smallest request. A request that is not JSON stays as it is.
func Ask(e Endpoint, request []byte, model string, stream, includeUsage bool) []byte {
	if request == nil {
		request = []byte(smallest[e])
	}
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(request, &members); err != nil || members == nil {
		return request
	}
	members["model"] = openai.AppendString(nil, model)
	if stream {
		members["stream"] = jsontext.Value("true")
	}
	if includeUsage && e != Messages && e != Responses && e != Gemini && string(members["stream"]) == "true" {
		members["stream_options"] = jsontext.Value(`{"include_usage":true}`)
	}
	out, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return request
	}
	return out
}
