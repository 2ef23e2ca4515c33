package admin

import (
	"context"
	"fmt"
	"io"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

type auditSinksCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
}

// Help is shown below the flags' summary.
func (auditSinksCmd) Help() string {
	return "Sinks are objects: see docs/audit.md.\n\nExample:\n  modelgate audit sinks"
}

// Run prints how far each sink is.
func (c auditSinksCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.AuditSinks, error) { return client.AuditSinks(ctx) }
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, all adminapi.AuditSinks) {
			out.Table("There is no AuditSink.",
				[]string{"SINK", "KIND", "STATE", "SEQUENCE", "DELIVERED", "BACKLOG", "MISSING", "ERROR"},
				admincli.Rows(all.Items, func(s adminapi.AuditSinkStatus) []string {
					return []string{s.Name, s.Kind, stateOfSink(out, s), fmt.Sprint(s.Sequence), out.TimeOr(s.DeliveredAt, "never"),
						fmt.Sprint(s.Backlog), fmt.Sprint(s.Missing), s.Error}
				}))
		})
}

func stateOfSink(out *console.Text, s adminapi.AuditSinkStatus) string {
	switch {
	case s.Disabled:
		return "disabled"
	case s.FailingSince != nil:
		return "failing since " + out.Time(*s.FailingSince)
	}
	return "ok"
}
