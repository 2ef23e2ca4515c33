package dashboard

import (
	"embed"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/accounts"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/alerts"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/approvals"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/audit"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/dataplane"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/find"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/findings"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/jobs"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/keys"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/models"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/objects"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/overview"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/playground"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/policies"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/providers"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/ratelimits"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/requests"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/tenants"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/usage"
)

// sections returns the pages by subject, in the order of the navigation.
func sections(c Config) []page.Section {
	return []page.Section{
		overview.Section(),
		usage.Section(),
		requests.Section(c.BaseURL, c.TraceURL),
		findings.Section(),
		playground.Section(c.Gateway),
		keys.Section(c.Gateway),
		tenants.Section(),
		ratelimits.Section(),
		approvals.Section(),
		providers.Section(c.Vendors),
		models.Section(),
		policies.Section(),
		jobs.Section(),
		dataplane.Section(),
		alerts.Section(),
		objects.Section(),
		audit.Section(),
		accounts.Section(),
		find.Section(),
	}
}

//go:embed *.html
var templateFiles embed.FS

// shell returns the templates of the shell's own pages, and the line of the person's own account.
func shell() page.Section {
	return page.Section{
		Lines:     []page.Line{{Group: "System", Path: "/account", Name: "Your account", Tenants: true}},
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
