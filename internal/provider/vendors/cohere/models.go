package cohere

import (
	"net/url"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
)

// models are the models that chat or embed, except fine-tuned ones. The list is documented below /v1
// (https://docs.cohere.com/reference/list-models) and served below /v2, as is the endpoint.
func models() modellist.List {
	const first = "/models?page_size=1000"
	return modellist.List{
		Path: first, ID: "name",
		Keep: func(m gjson.Result) bool {
			if m.Get("finetuned").Bool() {
				return false
			}
			for _, endpoint := range m.Get("endpoints").Array() {
				if endpoint.Str == "chat" || endpoint.Str == "embed" {
					return true
				}
			}
			return false
		},
		Next: func(page gjson.Result) string {
			if token := page.Get("next_page_token").Str; token != "" {
				return first + "&page_token=" + url.QueryEscape(token)
			}
			return ""
		},
	}
}
