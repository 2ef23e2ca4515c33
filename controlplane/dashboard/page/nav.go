package page

import (
	"slices"
	"strings"

	"github.com/modelgate/modelgate/controlplane/authz"
)

// A Line is a line of the navigation.
type Line struct {
	Group, Path, Name string
	// Scope is the scope that a person needs to see the line. It may be empty.
	Scope authz.Scope
	// Tenants is set if people who are restricted to a tenant see the line.
	Tenants bool
	// Ranged is set if the page has the picker of the time range. Links to it carry the range.
	Ranged bool
}

// A Group is a part of the navigation.
type Group struct {
	Name  string
	Items []Line
}

// Navigation returns the part of the navigation that the person may see.
func (v *Visit) Navigation() []Group {
	var groups []Group
	for _, s := range v.site.sections {
		for _, line := range s.Lines {
			if line.Scope != "" && !v.Principal.May(line.Scope) || !v.Principal.Tenant.IsAll() && !line.Tenants {
				continue
			}
			i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == line.Group })
			if i < 0 {
				i = len(groups)
				groups = append(groups, Group{Name: line.Group})
			}
			groups[i].Items = append(groups[i].Items, line)
		}
	}
	return groups
}

// lineOf returns the path of the navigation's line that a path belongs to.
func lineOf(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return "/" + first
}

// Approvals is the page of changes that wait for approval.
const Approvals = "/approvals"

const notInForce = "The change is stored, but not yet active everywhere. The page Data plane shows which process lags behind."

// commonNotices returns the texts that the page after a change shows, by action.
func commonNotices() map[string]string {
	return map[string]string{
		"saved":    "Saved. The data plane uses the change.",
		"created":  "Created. The data plane uses the change.",
		"deleted":  "Deleted.",
		"disabled": "Disabled.",
		"enabled":  "Enabled.",
		"waiting":  "The change waits until somebody else approves it. Nothing is changed yet.",
	}
}

// notice returns the text for the last action.
func (v *Visit) notice() string {
	q := v.request.URL.Query()
	if q.Get("pending") != "" {
		return notInForce
	}
	return v.site.notices[q.Get("done")]
}
