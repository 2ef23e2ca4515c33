package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

const minute = "2006-01-02 15:04"

// Write writes the report as Markdown.
func (r *Report) Write(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "# Access and usage, %s to %s (UTC)\n\nMade at %s.\n", r.From.Format(minute), r.To.Format(minute),
		r.Made.Format(minute))
	r.writeAudit(&out)
	fmt.Fprintf(&out, "\n## Who may administer the gateway\n\nAs of %s.\n", r.Made.Format(minute))
	var rows [][]string
	for _, p := range r.People {
		rows = append(rows, []string{p.Name, cmp.Or(p.Role, "-"), cmp.Or(strings.Join(p.Memberships, "; "), "-"),
			cmp.Or(p.Provider, "-"), yes(p.ReadBodies), yes(p.Disabled)})
	}
	table(&out, "No accounts.", []string{"Account", "Role", "Memberships", "Signs in at", "Reads bodies", "Disabled"},
		rows)
	rows = nil
	for _, t := range r.Tokens {
		expires := "never"
		if t.Expires != nil {
			expires = t.Expires.UTC().Format(minute)
		}
		rows = append(rows, []string{t.Name, t.ID, strings.Join(t.Scopes, " "), expires})
	}
	table(&out, "No admin tokens.", []string{"Admin token", "Id", "Scopes", "Expires"}, rows)
	rows = nil
	for _, g := range r.Groups {
		rows = append(rows, []string{g.Provider, g.Group, g.Role, cmp.Or(tenant(g.Organization, g.Project), "-")})
	}
	table(&out, "No groups of an identity provider have a role.", []string{"Identity provider", "Group", "Role", "Of"}, rows)
	r.writeClients(&out)
	r.writeChanges(&out)
	fmt.Fprint(&out, "\n## What was used\n")
	writeUsage(&out, "Organization", r.ByOrganization)
	writeUsage(&out, "Model", r.ByModel)
	_, err := io.WriteString(w, out.String())
	return err
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
	var rows [][]string
	for _, k := range r.Keys {
		rows = append(rows, []string{cmp.Or(k.Organization, "-"), cmp.Or(k.Project, "-"), strconv.Itoa(k.Active),
			strconv.Itoa(k.Inactive)})
	}
	table(out, "No keys.", []string{"Organization", "Project", "Keys", "Disabled or expired"}, rows)
	rows = nil
	for _, i := range r.Issuers {
		rows = append(rows, []string{i.Kind, i.Name, strings.Join(i.Keys, " ")})
	}
	table(out, "Nobody acts as a key without having it.", []string{"Clients without keys", "Name", "Act as"}, rows)
}

func (r *Report) writeChanges(out *strings.Builder) {
	fmt.Fprint(out, "\n## What changed\n")
	var rows [][]string
	for _, e := range r.RightsChanged {
		rows = append(rows, []string{e.At.UTC().Format(time.RFC3339), e.Actor, e.Action, e.Kind, e.Name})
	}
	table(out, "Nobody changed who may do what.", []string{"Change of rights at", "By", "Action", "Kind", "Name"}, rows)
	rows = nil
	for _, c := range r.Changes {
		rows = append(rows, []string{c.Actor, c.Action, cmp.Or(c.Kind, "-"), strconv.Itoa(c.Count)})
	}
	table(out, "Nothing was done.", []string{"By", "Action", "Kind", "How often"}, rows)
}

func writeUsage(out *strings.Builder, of string, all []Usage) {
	var rows [][]string
	for _, u := range all {
		rows = append(rows, []string{cmp.Or(u.Name, "-"), strconv.FormatInt(u.Requests, 10),
			strconv.FormatInt(u.InputTokens, 10), strconv.FormatInt(u.OutputTokens, 10), u.CostUSD})
	}
	table(out, "Nothing was used, by "+strings.ToLower(of)+".", []string{of, "Requests", "Input tokens", "Output tokens",
		"USD"}, rows)
}

// table writes a table of Markdown, or what there is to say without rows.
func table(out *strings.Builder, none string, header []string, rows [][]string) {
	if len(rows) == 0 {
		fmt.Fprintf(out, "\n%s\n", none)
		return
	}
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(out, "| %s ", strings.ReplaceAll(admincli.OneLine(c), "|", `\|`))
		}
		out.WriteString("|\n")
	}
	out.WriteString("\n")
	line(header)
	out.WriteString(strings.Repeat("|---", len(header)) + "|\n")
	for _, r := range rows {
		line(r)
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}
