package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/controlplane/authz"
)

const (
	closed  tenantRule = iota // it is not for them
	queried                   // the query is restricted to the tenant
	checked                   // the handler looks whether what it is about is of the tenant
)

// tenantRule is what a route does for a principal who is restricted to a tenant.
type tenantRule uint8

// within returns the request of a principal who is restricted to a tenant, as a route allows it.
func (t tenantRule) within(r *http.Request, p authz.Principal) (*http.Request, error) {
	switch {
	case p.Tenant.IsAll() || t == checked:
		return r, nil
	case t == closed:
		return nil, authz.NotForTenant(p.Tenant)
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badQuery(err)
	}
	for name, own := range map[string]string{"organization": p.Tenant.Organization, "project": p.Tenant.Project} {
		for given, values := range query {
			is := given == name || strings.HasPrefix(given, name+"[") // lists are also written name[]
			if own != "" && is && (given != name || slices.ContainsFunc(values, func(v string) bool { return v != own })) {
				return nil, authz.NotForTenant(p.Tenant)
			}
		}
		if own != "" {
			query.Set(name, own)
		}
	}
	restricted := r.Clone(r.Context())
	restricted.URL.RawQuery = query.Encode()
	return restricted, nil
}
