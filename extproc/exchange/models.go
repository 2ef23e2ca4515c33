package exchange

import (
	"net/http"
	"net/url"

	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/pipeline"
)

// models answers GET /v1/models and, if id is not empty, GET /v1/models/{id}. Ids may have slashes, plain or as %2F.
func (x *Exchange) models(id string) Reply {
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	var body []byte
	if id == "" {
		body = x.config.AppendModels(append(body, `{"object":"list","data":[`...), x.key)
		body = append(body, "]}"...)
	} else {
		var err error
		if id, err = x.config.Resolve(x.key, id); err != nil {
			e := pipeline.ClientError(err)
			e.Param = "model"
			return x.reject(e, "mg_no_model")
		}
		body = x.config.Model(id)
	}
	if x.dialect.AppendModels != nil {
		body = x.dialect.AppendModels(nil, body)
	}
	x.record.Outcome, x.record.Status = metering.OutcomeFinished, http.StatusOK
	x.finish()
	return x.immediate(http.StatusOK, http.Header{"Content-Type": {contentTypeJSON}}, body, "mg_models")
}
