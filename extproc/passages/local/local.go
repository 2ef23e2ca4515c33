// Package local has the requests that the gateway answers by itself: the list of models, reports of usage, and counts
// of tokens for providers that do not count.
package local

import (
	"net/http"
	"net/url"

	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/pipeline"
)

// A Passage is a request that the gateway answers.
type Passage struct {
	c       *call.Call
	account *account.Account
}

// New returns the passage of a call.
func New(c *call.Call, a *account.Account) Passage { return Passage{c, a} }

// Models answers GET /v1/models and, if id is not empty, GET /v1/models/{id}. Ids may have slashes, plain or as %2F.
func (p Passage) Models(id string) call.Reply {
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	var body []byte
	if id == "" {
		body = p.c.Config.AppendModels(append(body, `{"object":"list","data":[`...), p.c.Key)
		body = append(body, "]}"...)
	} else {
		var err error
		if id, err = p.c.Config.Resolve(p.c.Key, id); err != nil {
			e := pipeline.ClientError(err)
			e.Param = "model"
			return p.c.Reject(e, "mg_no_model")
		}
		body = p.c.Config.Model(id)
	}
	if p.c.Dialect.AppendModels != nil {
		body = p.c.Dialect.AppendModels(nil, body)
	}
	p.c.Record.Outcome, p.c.Record.Status = metering.OutcomeFinished, http.StatusOK
	p.c.Finish()
	return p.c.Immediate(http.StatusOK, http.Header{"Content-Type": {answer.TypeJSON}}, body, "mg_models")
}
