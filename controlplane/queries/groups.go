package queries

import (
	"context"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/usage"
)

// NameGroups adds the names that the objects of groups have for people, as far as the caller may know them. It also
// says which of them are deleted.
func (q *Service) NameGroups(ctx context.Context, s *adminapi.Series) error {
	revision, found := q.options.Plane.Keys()
	mayRead := authz.Needs(ctx, authz.KeysRead) == nil
	if s.By == "key" && (!mayRead || revision == 0) {
		return nil
	}
	if s.By != "key" {
		kind, ok := map[string]configv1.Kind{
			"provider":     configv1.KindOf((*configv1.Provider)(nil)),
			"organization": configv1.KindOf((*configv1.Organization)(nil)),
			"project":      configv1.KindOf((*configv1.Project)(nil)),
		}[s.By]
		if !ok {
			return nil
		}
		var names []string
		for _, g := range s.Groups {
			if g.Name != "" {
				names = append(names, g.Name)
			}
		}
		entries, err := q.options.Store.Named(ctx, kind, names)
		if err != nil {
			return err
		}
		found = map[string]configv1.Object{}
		for _, e := range entries {
			found[e.Name] = e.Object
		}
	}
	for i := range s.Groups {
		g := &s.Groups[i]
		o, ok := found[g.Name]
		g.DisplayName, g.Deleted = configv1.DisplayName(o), !ok && g.Name != "" && g.Name != usage.ResponseCache
	}
	return nil
}
