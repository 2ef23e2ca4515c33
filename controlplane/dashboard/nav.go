package dashboard

import (
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/admin"
)

// A navItem is a line of the navigation.
type navItem struct {
	Path, Name string
	scope      admin.Scope
}

// Ranged reports whether the page has the picker of the time range. Links to it carry the range.
func (n navItem) Ranged() bool {
	return slices.Contains([]string{"/", "/usage", "/requests", "/findings"}, n.Path)
}

// A navGroup is a part of the navigation.
type navGroup struct {
	Name  string
	Items []navItem
}

func navigation() []navGroup {
	return []navGroup{
		{"", []navItem{{"/", "Overview", admin.UsageRead}}},
		{"Traffic", []navItem{
			{"/usage", "Usage", admin.UsageRead},
			{"/requests", "Requests", admin.UsageRead},
			{"/findings", "Findings", admin.UsageRead},
			{"/playground", "Playground", admin.Playground},
		}},
		{"Access", []navItem{
			{"/keys", "Keys", admin.KeysRead},
			{"/organizations", "Organizations", admin.ConfigRead},
			{"/projects", "Projects", admin.ConfigRead},
			{"/rate-limits", "Rate limits", admin.ConfigRead},
			{pathApprovals, "Approvals", admin.KeysWrite},
		}},
		{"Routing", []navItem{
			{"/providers", "Providers", admin.ConfigRead},
			{"/models", "Models", admin.ConfigRead},
			{"/policies", "Policies", admin.ConfigRead},
		}},
		{"Jobs", []navItem{
			{"/batches", "Batches", admin.JobsRead},
			{"/fine-tuning", "Fine-tuning", admin.JobsRead},
		}},
		{"System", []navItem{
			{"/data-plane", "Data plane", admin.StatusRead},
			{"/alerts", "Alerts", admin.StatusRead},
			{"/objects", "All objects", admin.ConfigRead},
			{"/audit", "Audit log", admin.AuditRead},
			{"/accounts", "Accounts", admin.AdminsRead},
			{"/objects/IdentityProvider", "Identity providers", admin.AdminsRead},
			{"/tokens", "Admin tokens", admin.AdminsRead},
			{"/account", "Your account", ""},
		}},
	}
}

// tenantPaths are what of the navigation is for people who are restricted to a tenant.
var tenantPaths = []string{"/", "/usage", "/requests", "/findings", "/keys", "/organizations", "/projects",
	pathApprovals, "/batches", "/fine-tuning", "/accounts", "/account", "/audit"}

// navFor returns what of the navigation somebody may see.
func navFor(p admin.Principal) []navGroup {
	groups := navigation()
	for i := range groups {
		groups[i].Items = slices.DeleteFunc(groups[i].Items, func(n navItem) bool {
			return n.scope != "" && !p.May(n.scope) || !p.Tenant.IsAll() && !slices.Contains(tenantPaths, n.Path)
		})
	}
	return slices.DeleteFunc(groups, func(g navGroup) bool { return len(g.Items) == 0 })
}

// sectionOf returns the line of the navigation that a path belongs to.
func sectionOf(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return "/" + first
}

// takenWithin is how long a change waits until the data plane has taken it.
const takenWithin = 10 * time.Second

const notInForce = "The change is stored, but not yet active everywhere. The page Data plane shows which process lags behind."

// notice returns what the page that follows something says of it.
func (v *visit) notice() string {
	q := v.request.URL.Query()
	if q.Get("pending") != "" {
		return notInForce
	}
	return map[string]string{
		"saved":       "Saved. The data plane uses the change.",
		"created":     "Created. The data plane uses the change.",
		"deleted":     "Deleted.",
		"rolled_back": "Rolled back. The data plane uses the change.",
		"cancelling":  "The batch is being cancelled. Requests that are under way may still end.",
		"revoked":     "The key is revoked. It no longer works.",
		"disabled":    "Disabled.",
		"enabled":     "Enabled.",
		"waiting":     "The change waits until somebody else approves it. Nothing is changed yet.",
		"approved":    "Approved. The data plane uses the change.",
		"rejected":    "Rejected. Nothing is changed.",
		"withdrawn":   "Withdrawn. Nothing is changed.",
		"password":    "Your password is changed. All other sessions have ended.",
		"signed_out":  "You are signed out.",
	}[q.Get("done")]
}

// signedIn returns the pages for those who are signed in.
func signedIn() []route {
	return slices.Concat(accessPages(), tenantPages("organizations", "organization"), tenantPages("projects", "project"),
		routingPages(),
		trafficPages(), adminPages(), objectPages())
}

func accessPages() []route {
	return []route{
		{"POST /sign-out", "", (*visit).signOut},
		{"GET /find", "", (*visit).find},
		{"GET /account", "", (*visit).profile},
		{"POST /account", "", (*visit).changePassword},
		{"POST /tenant", "", (*visit).setTenant},

		{"GET /keys", admin.KeysRead, (*visit).keys},
		{"POST /keys", admin.KeysWrite, (*visit).createKey},
		{"GET /new/key", admin.KeysWrite, (*visit).newKey},
		{"GET /keys/{name}", admin.KeysRead, (*visit).showKey},
		{"POST /keys/{name}", admin.KeysWrite, (*visit).changeKey},
		{"GET /keys/{name}/{what}", admin.KeysWrite, (*visit).askKey},
		{"GET " + pathApprovals, admin.KeysWrite, (*visit).approvals},
		{"POST " + pathApprovals + "/{id}", admin.KeysWrite, (*visit).decide},
	}
}

// tenantPages are those of organizations, or of projects.
func tenantPages(path, one string) []route {
	list, form, create, show, change := tenants(path)
	return []route{
		{"GET /" + path, admin.ConfigRead, list},
		{"POST /" + path, admin.ConfigWrite, create},
		{"GET /new/" + one, admin.ConfigWrite, form},
		{"GET /" + path + "/{name...}", admin.ConfigRead, show},
		{"POST /" + path + "/{name...}", admin.ConfigWrite, change},
	}
}

func routingPages() []route {
	return []route{
		{"GET /rate-limits", admin.ConfigRead, (*visit).rateLimits},
		{"POST /rate-limits", admin.ConfigWrite, (*visit).createRateLimit},
		{"GET /new/rate-limit", admin.ConfigWrite, (*visit).newRateLimit},

		{"GET /policies", admin.ConfigRead, (*visit).policies},
		{"POST /policies", admin.ConfigWrite, (*visit).createPolicy},
		{"GET /new/policy", admin.ConfigWrite, (*visit).newPolicy},
		{"GET /policies/{name}", admin.ConfigRead, (*visit).showPolicy},
		{"POST /policies/{name}", admin.ConfigWrite, (*visit).changePolicy},

		{"GET /providers", admin.ConfigRead, (*visit).providers},
		{"POST /providers", admin.ConfigWrite, (*visit).createProvider},
		{"GET /new/provider", admin.ConfigWrite, (*visit).newProvider},
		{"GET /providers/{name}", admin.ConfigRead, (*visit).showProvider},
		{"POST /providers/{name}", admin.ConfigWrite, (*visit).changeProvider},

		{"GET /models", admin.ConfigRead, (*visit).models},
		{"POST /models", admin.ConfigWrite, (*visit).createModel},
		{"GET /new/model", admin.ConfigWrite, (*visit).newModel},
		{"GET /models/{name...}", admin.ConfigRead, (*visit).showModel},
		{"POST /models/{name...}", admin.ConfigWrite, (*visit).changeModel},
	}
}

func trafficPages() []route {
	return []route{
		{"GET /{$}", "", (*visit).home},
		{"GET /usage", admin.UsageRead, (*visit).usage},
		{"GET /usage.csv", admin.UsageRead, (*visit).usageCSV},
		{"GET /requests", admin.UsageRead, (*visit).requests},
		{"GET /findings", admin.UsageRead, (*visit).findings},
		{"GET /requests.csv", admin.UsageRead, (*visit).exportRequests},
		{"GET /requests.jsonl", admin.UsageRead, (*visit).exportRequests},
		{"GET /requests/{id}", admin.UsageRead, (*visit).showRequest},
		{"GET /requests/{id}/bodies", admin.BodiesRead, (*visit).askBodies},
		{"POST /requests/{id}/bodies", admin.BodiesRead, (*visit).showBodies},
		{"GET /playground", admin.Playground, (*visit).playground},
		{"POST /playground/ask/{api}", admin.Playground, (*visit).playgroundAsk},
		{"GET /playground/cost/{id}", admin.Playground, (*visit).playgroundCost},
		{"GET /batches", admin.JobsRead, (*visit).batches},
		{"GET /batches/{id}", admin.JobsRead, (*visit).showBatch},
		{"POST /batches/{id}", admin.JobsWrite, (*visit).cancelBatch},
		{"POST /batches/{id}/files/{which}", admin.BodiesRead, (*visit).batchFile},
		{"GET /fine-tuning", admin.JobsRead, (*visit).tuningJobs},
		{"GET /fine-tuning/{id}", admin.JobsRead, (*visit).tuningJob},
	}
}

func adminPages() []route {
	return []route{
		{"GET /audit", admin.AuditRead, (*visit).auditLog},
		{"GET /data-plane", admin.StatusRead, (*visit).dataPlane},
		{"GET /alerts", admin.StatusRead, (*visit).alerts},
		{"POST /alerts/{receiver}/test", admin.ConfigWrite, (*visit).testAlert},

		{"GET " + adminapi.PathTerminal, "", (*visit).terminalForm},
		{"POST " + adminapi.PathTerminal, "", (*visit).allowTerminal},
		{"GET " + adminapi.PathTerminalDevice, "", (*visit).deviceForm},
		{"POST " + adminapi.PathTerminalDevice, "", (*visit).allowDevice},
		{"GET /accounts", admin.AdminsRead, (*visit).accounts},
		{"POST /accounts", admin.AdminsWrite, (*visit).createAccount},
		{"GET /new/account", admin.AdminsWrite, (*visit).newAccount},
		{"GET /accounts/{name...}", admin.AdminsRead, (*visit).showAccount},
		{"POST /accounts/{name...}", admin.AdminsWrite, (*visit).changeAccount},
		{"GET /tokens", admin.AdminsRead, (*visit).tokens},
		{"POST /tokens", admin.AdminsWrite, (*visit).createToken},
		{"GET /new/token", admin.AdminsWrite, (*visit).newToken},
	}
}

// objectPages are those of all kinds. What somebody may do with which, the API says.
func objectPages() []route {
	return []route{
		{"GET /objects", admin.ConfigRead, (*visit).kinds},
		{"GET /objects/{kind}", "", (*visit).objects},
		{"GET /objects/{kind}/{name...}", "", (*visit).editObject},
		{"POST /objects/{kind}", "", (*visit).writeObject},
		{"POST /objects/{kind}/{name...}", "", (*visit).writeObject},
		{"GET /new/object/{kind}", "", (*visit).newObject},
		{"GET /delete/{kind}/{name...}", "", (*visit).askDelete},
		{"POST /delete/{kind}/{name...}", "", (*visit).deleteObject},
		{"GET /history/{kind}/{name...}", admin.AuditRead, (*visit).history},
		{"GET /rollback/{kind}/{name...}", "", (*visit).askRollback},
		{"POST /rollback/{kind}/{name...}", "", (*visit).rollback},
	}
}
