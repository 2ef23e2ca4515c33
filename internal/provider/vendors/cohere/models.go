package cohere

import (
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
			return !m.Get("finetuned").Bool() && modellist.Lists(m.Get("endpoints"), "chat", "embed")
		},
		Next: modellist.Token("next_page_token", first+"&page_token="),
	}
}
