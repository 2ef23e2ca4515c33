package groq

import (
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
)

// models are the models that take requests: https://console.groq.com/docs/api-reference#models-list.
func models() modellist.List {
	return modellist.List{Keep: func(m gjson.Result) bool { return m.Get("active").Type != gjson.False }}
}
