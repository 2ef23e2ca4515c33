package admin

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// AuditCmd is the command audit.
type AuditCmd struct {
	Show   auditShowCmd   `cmd:"" default:"withargs" help:"Show the entries, newest first."`
	Verify auditVerifyCmd `cmd:"" help:"Check that no entry was changed, removed or inserted."`
	Sinks  auditSinksCmd  `cmd:"" help:"Show how far the audit log was delivered to each AuditSink."`
}

type auditShowCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Since        string `default:"7d" placeholder:"WHEN" help:"Start: a time such as 2026-11-01T00:00:00Z, or how long ago, such as 24h or 7d (${default})."`
	Actor        string `placeholder:"NAME" help:"Only actions of this account or token."`
	Kind         string `placeholder:"KIND" predictor:"kinds" help:"Only actions on objects of this kind."`
	Object       string `name:"name" placeholder:"NAME" help:"Only actions on the object with this name. With --kind key or admin_token, also the id, or the name of an existing object."`
	Organization string `placeholder:"NAME" help:"Only what people of this organization see of the audit log."`
	Project      string `placeholder:"NAME" help:"Only what people of this project see; with --organization."`
	Action       string `placeholder:"ACTION" help:"Only this action, such as create, update, delete or sign_in_failed."`
	Limit        int    `default:"100" help:"Maximum number of entries (${default})."`
	Diff         bool   `help:"Also show the changes."`
}

// Help is shown below the flags' summary.
func (auditShowCmd) Help() string {
	return "Example:\n  modelgate audit --since 24h --kind key --diff"
}

// Run prints who did what, the newest first.
func (c auditShowCmd) Run(ctx context.Context, stdout io.Writer) error {
	since, err := adminflags.ParseSince("--since", c.Since, time.Now())
	if err != nil {
		return err
	}
	if c.Kind != "" {
		kind, err := parseKind(c.Kind)
		if err != nil {
			return err
		}
		c.Kind = kind.Name
	}
	var more bool
	call := func(client *adminapi.Client) (found []adminapi.AuditEntry, err error) {
		if kind, ok := configv1.FindKind(c.Kind); ok && c.Kind != "" {
			if id, err := adminflags.IDOf(ctx, client, kind, c.Object); err == nil {
				c.Object = id // else it is of one that was removed
			}
		}
		filters := map[string]string{"start": strconv.FormatInt(since.Unix(), 10), "actor": c.Actor, "kind": c.Kind,
			"name": c.Object, "action": c.Action, "organization": c.Organization, "project": c.Project}
		found, more, err = pagesOf(c.Limit, adminapi.ListOptions{Filters: filters},
			func(o adminapi.ListOptions) (adminapi.Page[adminapi.AuditEntry], error) { return client.Audit(ctx, o) })
		if err == nil && len(found) == 0 {
			err = adminflags.Known(ctx, client, filters)
		}
		return found, err
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, entries []adminapi.AuditEntry) {
			c.write(out, entries)
			sayMore(out, more, len(entries))
		})
}

// pagesOf asks for pages until there are enough items, or no more. It reports whether there are more.
func pagesOf[T any](most int, o adminapi.ListOptions,
	ask func(adminapi.ListOptions) (adminapi.Page[T], error)) (items []T, more bool, err error) {
	for items = []T{}; len(items) < most; {
		o.Limit = min(most-len(items), admincli.PageSize)
		page, err := ask(o)
		if err != nil {
			return nil, false, err
		}
		items = append(items, page.Items...)
		if more = page.Next != "" && page.Next != o.After; !more {
			break
		}
		o.After = page.Next
	}
	return items[:min(most, len(items))], more || len(items) > most, nil
}

// sayMore says that not all rows are shown.
func sayMore(out *console.Text, more bool, shown int) {
	if more {
		out.Printf("\nThese are the newest %d. --limit shows more.\n", shown)
	}
}

func (c auditShowCmd) write(out *console.Text, entries []adminapi.AuditEntry) {
	if !c.Diff {
		out.Table("Nothing was done in this time.", []string{"NAME", "KIND", "ACTION", "ACTOR", "ADDRESS", "AT"},
			admincli.Rows(entries, func(e adminapi.AuditEntry) []string {
				return []string{out.Named(e.Name), e.Kind, e.Action, out.Named(e.Actor), e.Address, out.Time(e.At)}
			}))
		return
	}
	for _, e := range entries {
		says := fmt.Sprintf("%s  %s (%s)  %s %s %s", out.Time(e.At), out.Named(e.Actor), e.Address, e.Action, e.Kind,
			out.Named(e.Name))
		out.Printf("%s\n%s\n", adminapi.OneLine(says), e.Diff)
	}
}
