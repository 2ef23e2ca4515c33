package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

const minute = "2006-01-02 15:04"

// Write writes the report as Markdown.
func (r *Report) Write(out *strings.Builder) {
	fmt.Fprintf(out, "# Access and usage, %s to %s (UTC)\n\nMade at %s.\n", r.From.Format(minute), r.To.Format(minute),
		r.Made.Format(minute))
	r.writeAudit(out)
	fmt.Fprintf(out, "\n## Who may administer the gateway\n\nAs of %s.\n", r.Made.Format(minute))
	table(out, "No accounts.", []string{"Account", "Role", "Memberships", "Signs in at", "Reads bodies", "Disabled"},
		r.People, func(p Person) []string {
			return []string{p.Name, p.Role, strings.Join(p.Memberships, "; "), p.Provider, yes(p.ReadBodies), yes(p.Disabled)}
		})
	table(out, "No admin tokens.", []string{"Admin token", "Id", "Scopes", "Expires"}, r.Tokens, func(t Token) []string {
		expires := "never"
		if t.Expires != nil {
			expires = t.Expires.UTC().Format(minute)
		}
		return []string{t.Name, t.ID, strings.Join(t.Scopes, " "), expires}
	})
	table(out, "No groups of an identity provider have a role.", []string{"Identity provider", "Group", "Role", "Of"},
		r.Groups, func(g Group) []string {
			return []string{g.Provider, g.Group, g.Role, tenant(g.Organization, g.Project)}
		})
	r.writeClients(out)
	r.writeChanges(out)
	out.WriteString("\n## What was used\n")
	writeUsage(out, "Organization", r.ByOrganization)
	writeUsage(out, "Model", r.ByModel)
}

func (r *Report) writeAudit(out *strings.Builder) {
	fmt.Fprintf(out, "\n## Audit log\n\n%d entries in the period. ", r.AuditLog.Entries)
	if r.AuditLog.Intact {
		fmt.Fprintf(out, "The chain of hashes is intact up to entry %d: `%s`.\n", r.AuditLog.Sequence, r.AuditLog.Head)
	} else {
		fmt.Fprint(out, "**The chain of hashes is broken:** `modelgate audit verify` says where.\n")
	}
	if since := r.AuditLog.Since; since == nil || since.After(r.From) {
		from := "this report was made"
		if since != nil {
			from = since.UTC().Format(minute)
		}
		fmt.Fprintf(out, "\nThe log begins at %s. What happened before is not in this report.\n", from)
	}
}

func (r *Report) writeClients(out *strings.Builder) {
	fmt.Fprintf(out, "\n## Who may send requests\n\nAs of %s.\n", r.Made.Format(minute))
	table(out, "No keys.", []string{"Organization", "Project", "Keys", "Disabled or expired"}, r.Keys,
		func(k Keys) []string {
			return []string{k.Organization, k.Project, strconv.Itoa(k.Active), strconv.Itoa(k.Inactive)}
		})
	table(out, "Nobody acts as a key without having it.", []string{"Clients without keys", "Name", "Act as"},
		r.Issuers, func(i Issuer) []string { return []string{i.Kind, i.Name, strings.Join(i.Keys, " ")} })
}

func (r *Report) writeChanges(out *strings.Builder) {
	fmt.Fprint(out, "\n## What changed\n")
	table(out, "Nobody changed who may do what.", []string{"Change of rights at", "By", "Action", "Kind", "Name"},
		r.RightsChanged, func(e adminapi.AuditEntry) []string {
			return []string{e.At.UTC().Format(time.RFC3339), e.Actor, e.Action, e.Kind, e.Name}
		})
	table(out, "Nothing was done.", []string{"By", "Action", "Kind", "How often"}, r.Changes, func(c Changes) []string {
		return []string{c.Actor, c.Action, c.Kind, strconv.Itoa(c.Count)}
	})
}

func writeUsage(out *strings.Builder, of string, all []Usage) {
	header := []string{of, "Requests", "Input tokens", "Output tokens", "USD"}
	table(out, "Nothing was used, by "+strings.ToLower(of)+".", header, all, func(u Usage) []string {
		return []string{u.Name, strconv.FormatInt(u.Requests, 10), strconv.FormatInt(u.InputTokens, 10),
			strconv.FormatInt(u.OutputTokens, 10), u.CostUSD}
	})
}

// table writes a table of Markdown, or what there is to say without items. What is empty is shown as a dash.
func table[T any](out *strings.Builder, none string, header []string, items []T, row func(T) []string) {
	if len(items) == 0 {
		fmt.Fprintf(out, "\n%s\n", none)
		return
	}
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(out, "| %s ", cmp.Or(strings.ReplaceAll(adminapi.OneLine(c), "|", `\|`), "-"))
		}
		out.WriteString("|\n")
	}
	out.WriteString("\n")
	line(header)
	out.WriteString(strings.Repeat("|---", len(header)) + "|\n")
	for _, item := range items {
		line(row(item))
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
