package exchange

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/extproc/metering"
)

// models answers GET /v1/models and, where id is not empty, GET /v1/models/{id}. Ids hold slashes, plain or as %2F.
func (x *Exchange) models(id string) Reply {
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	var body []byte
	if id == "" {
		body = x.appendModels(append(body, `{"object":"list","data":[`...))
		body = append(body, "]}"...)
	} else {
		var err error
		if id, err = x.config.resolve(x.key, id); err != nil {
			e := clientError(err)
			e.Param = "model"
			return x.reject(e, "mg_no_model")
		}
		if body = x.config.indexed().find(id); body == nil {
			owner, _, _ := strings.Cut(id, "/") // its provider
			body = appendModel(nil, id, 0, owner)
		}
	}
	x.record.Outcome, x.record.Status = metering.OutcomeFinished, http.StatusOK
	x.finish()
	return x.immediate(http.StatusOK, http.Header{"Content-Type": {contentTypeJSON}}, body, "mg_models")
}

// appendModels appends the models that the key may use, separated by commas.
func (x *Exchange) appendModels(dst []byte) []byte {
	index := x.config.indexed()
	if len(x.key.Models) == 0 {
		dst = slices.Grow(dst, index.size)
	}
	comma := ""
	for _, m := range index.listed {
		if x.config.mayUse(x.key, m.name) {
			dst = append(append(dst, comma...), m.text...)
			comma = ","
		}
	}
	return dst
}
