package gemini

import (
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
)

// models are the models that generate or embed, a thousand on a page:
// https://ai.google.dev/api/models#method:-models.list.
func models() modellist.List {
	const first = "/models?pageSize=1000"
	return modellist.List{
		Path: first, ID: "name", Prefix: "models/",
		Keep: func(m gjson.Result) bool {
			return modellist.Lists(m.Get("supportedGenerationMethods"), "generateContent", "embedContent")
		},
		Next: modellist.Token("nextPageToken", first+"&pageToken="),
	}
}
