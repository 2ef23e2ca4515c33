package gemini

import (
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// appendModels appends OpenAI's list of models, or one model, in Google's form. A list is one page.
func appendModels(dst, body []byte) []byte {
	root := gjson.ParseBytes(body)
	if !root.Get("data").Exists() {
		return appendModel(dst, root)
	}
	dst = append(dst, `{"models":[`...)
	for _, m := range root.Get("data").Array() {
		dst = appendModel(next(dst), m)
	}
	return append(dst, "]}"...)
}

func appendModel(dst []byte, m gjson.Result) []byte {
	id := m.Get("id").Str
	dst = openai.AppendString(append(dst, `{"name":`...), "models/"+id)
	dst = openai.AppendString(append(dst, `,"displayName":`...), id)
	return append(dst, `,"supportedGenerationMethods":["generateContent","countTokens","embedContent"]}`...)
}
