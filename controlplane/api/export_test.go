package api

import (
	"net/http"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// An Endpoint is a row of the table of who may use what.
type Endpoint struct {
	Method, Path string
	Scope        authz.Scope
	// Tenants means that people of a tenant may use it, if their role there has the scope, for the tenant's own
	// objects.
	Tenants bool
}

// For reports whether somebody may use an endpoint at all.
func (e Endpoint) For(p authz.Principal) bool {
	return p.May(e.Scope) && (e.Tenants || p.Tenant.IsAll())
}

// Endpoints returns the table of who may use what: what the server decides by. Paths of objects stand there for each
// kind.
func Endpoints() []Endpoint {
	var all []Endpoint
	for _, r := range (&server{}).routes() {
		if !strings.HasPrefix(r.path, "/admin/v1/{kind}") {
			all = append(all, Endpoint{r.method, r.path, r.scope, r.tenants != closed})
			continue
		}
		for _, k := range configv1.Kinds() {
			scope := authz.WriteScope(k)
			if r.method == http.MethodGet {
				scope = authz.ReadScope(k)
			}
			all = append(all, Endpoint{r.method, strings.Replace(r.path, "{kind}", k.Plural, 1), scope,
				r.tenants != closed && authz.TenantKind(k, scope)})
		}
	}
	return all
}
