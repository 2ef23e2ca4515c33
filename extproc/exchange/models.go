package exchange

import (
	"net/http"
	"net/url"

	"github.com/modelgate/modelgate/extproc/answer"
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
		body = x.c.Config.AppendModels(append(body, `{"object":"list","data":[`...), x.c.Key)
		body = append(body, "]}"...)
	} else {
		var err error
		if id, err = x.c.Config.Resolve(x.c.Key, id); err != nil {
			e := pipeline.ClientError(err)
			e.Param = "model"
			return x.c.Reject(e, "mg_no_model")
		}
		body = x.c.Config.Model(id)
	}
	if x.c.Dialect.AppendModels != nil {
		body = x.c.Dialect.AppendModels(nil, body)
	}
	x.c.Record.Outcome, x.c.Record.Status = metering.OutcomeFinished, http.StatusOK
	x.c.Finish()
	return x.c.Immediate(http.StatusOK, http.Header{"Content-Type": {answer.TypeJSON}}, body, "mg_models")
}
