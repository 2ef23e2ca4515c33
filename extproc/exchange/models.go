package exchange

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
)

// models answers GET /v1/models and, where id is not empty, GET /v1/models/{id}. Ids hold slashes, plain or as %2F.
func (x *Exchange) models(id string) Reply {
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	var body []byte
	if id == "" {
		body = append(body, `{"object":"list","data":[`...)
		for i, name := range x.modelNames() {
			if i > 0 {
				body = append(body, ',')
			}
			body = x.appendModel(body, name)
		}
		body = append(body, "]}"...)
	} else {
		if !x.knowsModel(id) {
			e := openai.ModelNotFound(id)
			e.Param = "model"
			return x.reject(e, "mg_no_model")
		}
		body = x.appendModel(nil, id)
	}
	x.record.Outcome, x.record.Status = OutcomeFinished, http.StatusOK
	x.finish()
	return x.immediate(http.StatusOK, http.Header{"Content-Type": {contentTypeJSON}}, body, "mg_models")
}

// modelNames are the models that the key may use, sorted: the configured ones, and those that providers are said to
// have.
func (x *Exchange) modelNames() []string {
	var names []string
	for name := range x.config.Models {
		names = append(names, name)
	}
	for name, p := range x.config.Providers {
		for _, m := range p.Config.GetModels() {
			names = append(names, name+"/"+m)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !x.knowsModel(name) })
	slices.Sort(names)
	return slices.Compact(names)
}

// knowsModel reports whether a request for the model would be planned.
func (x *Exchange) knowsModel(name string) bool {
	if !mayUse(x.key, name) {
		return false
	}
	if x.config.Models[name] != nil {
		return true
	}
	p, _ := x.config.unlisted(name)
	return p != nil
}

func (x *Exchange) appendModel(dst []byte, name string) []byte {
	m := x.config.Models[name]
	owner, created := m.Owner(), m.GetCreatedAt().GetSeconds()
	if m == nil {
		owner, _, _ = strings.Cut(name, "/") // its provider
	}
	dst = append(dst, `{"id":`...)
	dst = openai.AppendString(dst, name)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, created, 10)
	dst = append(dst, `,"owned_by":`...)
	dst = openai.AppendString(dst, owner)
	return append(dst, '}')
}
