package gemini

import (
	"net/url"

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
			for _, method := range m.Get("supportedGenerationMethods").Array() {
				if method.Str == "generateContent" || method.Str == "embedContent" {
					return true
				}
			}
			return false
		},
		Next: func(page gjson.Result) string {
			if token := page.Get("nextPageToken").Str; token != "" {
				return first + "&pageToken=" + url.QueryEscape(token)
			}
			return ""
		},
	}
}
