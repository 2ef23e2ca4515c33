package admin

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
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
	return adminflags.Ask(c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *strings.Builder, all adminapi.AuditSinks) {
			admincli.Table(out, []string{"SINK", "KIND", "STATE", "SEQUENCE", "DELIVERED", "BACKLOG", "MISSING", "ERROR"},
				admincli.Rows(all.Items, func(s adminapi.AuditSinkStatus) []string {
					return []string{s.Name, s.Kind, stateOfSink(s), fmt.Sprint(s.Sequence), timeOrNever(s.DeliveredAt),
						fmt.Sprint(s.Backlog), fmt.Sprint(s.Missing), s.Error}
				}))
		})
}

func stateOfSink(s adminapi.AuditSinkStatus) string {
	switch {
	case s.Disabled:
		return "disabled"
	case s.FailingSince != nil:
		return "failing since " + timeOrNever(s.FailingSince)
	}
	return "ok"
}

func timeOrNever(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}
