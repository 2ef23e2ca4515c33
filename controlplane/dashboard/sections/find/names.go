package find

import (
	"net/http"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// maxNames is how many names a field is offered at a time.
const maxNames = 20

// A choice is what a field may be filled with.
type choice struct {
	Value string `json:"value"`
	Label string `json:"label"` // what people call it
}

// names answers with names of a kind that contain what is typed, as far as the person may see them.
func names(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	kind, ok := configv1.FindKind(q.Get("kind"))
	if !ok {
		return page.ErrNoPage
	}
	found := []choice{}
	if v.Principal.May(authz.ReadScope(kind)) {
		part, err := v.API.ListPage(r.Context(), kind, adminapi.ListOptions{Query: q.Get("q"), Limit: maxNames})
		if err != nil {
			return err
		}
		for _, item := range part.Items {
			found = append(found, choice{item.Name, item.Title()})
		}
	}
	if kind.Name == configv1.KindOf((*configv1.Model)(nil)).Name && v.Principal.May(authz.UsageRead) {
		used, err := modelsInUse(v, r, q.Get("q"))
		if _, err = page.Unavailable(err); err != nil {
			return err
		}
		found = append(found, used...)
	}
	slices.SortStableFunc(found, func(a, b choice) int { return strings.Compare(a.Value, b.Value) })
	found = slices.Compact(found)
	return httpapi.WriteJSON(w, http.StatusOK, found[:min(len(found), maxNames)])
}

// modelsInUse returns the models that were asked for in the last day, which may have no object.
func modelsInUse(v *page.Visit, r *http.Request, typed string) (found []choice, err error) {
	end := v.Now().Truncate(time.Hour).Add(time.Hour)
	used, err := v.API.Series(r.Context(), adminapi.SeriesQuery{Start: end.Add(-24 * time.Hour), End: end, Width: "1h",
		By: "model", Order: "requests", Groups: 10 * maxNames}.Values())
	for _, g := range used.Groups {
		if g.Name != "" && strings.Contains(strings.ToLower(g.Name), strings.ToLower(typed)) {
			found = append(found, choice{g.Name, g.Name})
		}
	}
	return found, err
}
