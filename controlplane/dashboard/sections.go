package dashboard

import (
	"cmp"
	"embed"
	"slices"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:generate go run ../../internal/listgen -root ../.. -package dashboard -folders controlplane/dashboard/sections -function Section -o list.go

// sections returns the pages by subject, in the order of the navigation.
func sections(c Config) []page.Section {
	all := list(c)
	slices.SortFunc(all, func(a, b page.Section) int { return cmp.Compare(a.Place, b.Place) })
	return all
}

//go:embed *.html
var templateFiles embed.FS

// shell returns the templates of the shell's own pages, and the line of the person's own account.
func shell() page.Section {
	return page.Section{
		Lines:     []page.Line{{Group: page.GroupSettings, Path: "/account", Name: "Your account", Tenants: true}},
		Templates: templateFiles,
		Notices: map[string]string{
			"password":   "Your password is changed. All other sessions have ended.",
			"signed_out": "You are signed out.",
		},
	}
}

// ownPages returns the shell's pages for those who are signed in, by pattern.
func ownPages() map[string]handler {
	return map[string]handler{
		"POST /sign-out": (*visit).signOut,
		"GET /account":   (*visit).profile,
		"POST /account":  (*visit).changePassword,
		"POST /tenant":   (*visit).setTenant,

		"GET " + adminapi.PathTerminal:        (*visit).terminalForm,
		"POST " + adminapi.PathTerminal:       (*visit).allowTerminal,
		"GET " + adminapi.PathTerminalDevice:  (*visit).deviceForm,
		"POST " + adminapi.PathTerminalDevice: (*visit).allowDevice,
	}
}
