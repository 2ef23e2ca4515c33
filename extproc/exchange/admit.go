package exchange

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
)

// admit finds the client of a request by its key, and checks that the key may be used for the request.
func (x *Exchange) admit(h Headers, path string) *openai.Error {
	caller := access.Caller{Internal: x.internal, Key: h.Get(envoy.HeaderKey),
		Authorization: x.dialect.Authorization(h.Get),
		Address:       h.Get(envoy.HeaderAddress), Path: path}
	d := x.config.Directory
	var e *openai.Error
	if x.key, e = d.Admit(&caller, x.record.Start); x.key != nil {
		x.record.KeyID, x.record.Organization, x.record.Project = x.key.Name, x.key.Organization, x.key.Project
	}
	return e
}
