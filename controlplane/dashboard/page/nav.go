package page

import (
	"cmp"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// Groups of the navigation.
const (
	GroupOverview = "Overview"
	GroupRequests = "Requests"
	GroupUsage    = "Usage"
	GroupModels   = "Models"
	GroupAccess   = "Access"
	GroupRules    = "Rules"
	GroupJobs     = "Jobs"
	GroupSettings = "Settings"
)

// GroupNames returns the groups in the order of the navigation.
func GroupNames() []string {
	return []string{GroupOverview, GroupRequests, GroupUsage, GroupModels, GroupAccess, GroupRules, GroupJobs,
		GroupSettings}
}

// A Line is a line of the navigation.
type Line struct {
	// Group is one of [GroupNames].
	Group, Path, Name string
	// Scope is the scope that a person needs to see the line. It may be empty.
	Scope authz.Scope
	// Tenants is set if people who are restricted to a tenant see the line.
	Tenants bool
	// Ranged is set if the page has the picker of the time range. Links to it carry the range.
	Ranged bool
}

// A Group is a line of the navigation that is always there. It leads to the first of its pages.
type Group struct {
	Name string
	// Items are its pages. There is at least one.
	Items []Line
	// Current is the path of the line of the page that is shown. It is empty on the pages of other groups. The navigation
	// lists the items of this group only.
	Current string
}

// First returns the page that the group leads to.
func (g Group) First() Line { return g.Items[0] }

// named reports whether the first page has the name of the group, so that one line is for both.
func (g Group) named() bool { return g.First().Name == g.Name }

// Below returns the pages that are listed under the group.
func (g Group) Below() []Line {
	if g.named() {
		return g.Items[1:]
	}
	return g.Items
}

// Aria returns what the group's own line is on the page that is shown: page, true, or empty.
func (g Group) Aria() string {
	switch {
	case g.Current == "":
		return ""
	case g.named() && g.Current == g.First().Path:
		return "page"
	}
	return "true"
}

// Inside names the pages of the group.
func (g Group) Inside() string {
	var names []string
	for _, line := range g.Below() {
		names = append(names, line.Name)
	}
	return strings.Join(names, ", ")
}

// Navigation returns the part of the navigation that the person may see.
func (v *Visit) Navigation() []Group {
	var lines []Line
	for _, s := range v.site.sections {
		lines = append(lines, s.Lines...)
	}
	return navigation(lines, v.Principal, v.request.URL.Path)
}

func navigation(lines []Line, person authz.Principal, path string) (groups []Group) {
	current := lineOf(lines, path)
	for _, name := range GroupNames() {
		g := Group{Name: name}
		for _, line := range lines {
			if line.Group != name || line.Scope != "" && !person.May(line.Scope) ||
				!person.Tenant.IsAll() && !line.Tenants {
				continue
			}
			g.Items = append(g.Items, line)
			if line.Path == current {
				g.Current = current
			}
		}
		if len(g.Items) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// lineOf returns the path of the line that a page belongs to. It is empty if there is none.
func lineOf(lines []Line, path string) string {
	if lineAt(lines, path) != "" {
		return path
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	home, kind := "/"+parts[0], ""
	switch {
	case len(parts) < 2:
	case slices.Contains([]string{"objects", "form", "history", "delete", "rollback"}, parts[0]):
		kind, home = parts[1], "/objects"
	case parts[0] == "new":
		kind, home = parts[len(parts)-1], "/"+parts[1]+"s"
	}
	if k, ok := configv1.FindKind(kind); ok {
		home = cmp.Or(lineAt(lines, HomeOf(k)), "/objects")
	}
	return lineAt(lines, home)
}

func lineAt(lines []Line, path string) string {
	if slices.ContainsFunc(lines, func(l Line) bool { return l.Path == path }) {
		return path
	}
	return ""
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
