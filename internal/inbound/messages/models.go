package messages

import (
	"time"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// appendModels appends OpenAI's list of models, or one model, in Anthropic's form. A list is one page.
func appendModels(dst, body []byte) []byte {
	root := gjson.ParseBytes(body)
	if !root.Get("data").Exists() {
		return appendModel(dst, root)
	}
	dst = append(dst, `{"data":[`...)
	models := root.Get("data").Array()
	for i, m := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendModel(dst, m)
	}
	dst = append(dst, `],"has_more":false,"first_id":`...)
	if len(models) == 0 {
		return append(dst, `null,"last_id":null}`...)
	}
	dst = append(append(dst, models[0].Get("id").Raw...), `,"last_id":`...)
	return append(append(dst, models[len(models)-1].Get("id").Raw...), '}')
}

func appendModel(dst []byte, m gjson.Result) []byte {
	id := m.Get("id").Str
	dst = openai.AppendString(append(dst, `{"type":"model","id":`...), id)
	dst = openai.AppendString(append(dst, `,"display_name":`...), id)
	dst = append(append(dst, `,"created_at":"`...), time.Unix(m.Get("created").Int(), 0).UTC().Format(time.RFC3339)...)
	return append(dst, `"}`...)
}
