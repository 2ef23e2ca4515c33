package jobsvc

import (
	"cmp"
	"context"
	"slices"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Quotas returns the usage and the quotas of all organizations, projects and keys without an organization that have
// used the job service. The filters are organization, project and key.
func (i *Inspector) Quotas(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.TenantQuotas], error) {
	page := adminapi.Page[adminapi.TenantQuotas]{Items: []adminapi.TenantQuotas{}}
	usages, err := i.store.Usages(ctx)
	if err != nil {
		return page, err
	}
	equal := func(filter, value string) bool { return o.Filters[filter] == "" || o.Filters[filter] == value }
	for a, u := range usages {
		if !equal("organization", a.Organization) || !equal("project", a.Project) || !equal("key", a.Key) {
			continue
		}
		limits, err := i.gate.Limits(ctx, a)
		if err != nil {
			return page, err
		}
		item := adminapi.TenantQuotas{Organization: a.Organization, Project: a.Project, Key: a.Key}
		used := u.Counted
		for _, q := range store.AllQuotas() {
			item.Quotas = append(item.Quotas, adminapi.QuotaUse{Name: q.String(), Used: used[q], Limit: limits[q]})
		}
		page.Items = append(page.Items, item)
	}
	slices.SortFunc(page.Items, func(a, b adminapi.TenantQuotas) int {
		return cmp.Or(cmp.Compare(a.Organization, b.Organization), cmp.Compare(a.Project, b.Project),
			cmp.Compare(a.Key, b.Key))
	})
	return page, nil
}
