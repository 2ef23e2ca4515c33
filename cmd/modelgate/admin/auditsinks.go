package admin

import (
	"context"
	"fmt"
	"io"
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
	client, err := c.Client()
	if err != nil {
		return err
	}
	all, err := client.AuditSinks(ctx)
	if err != nil {
		return admincli.Said(err)
	}
	return c.Show(stdout, all, func(w io.Writer) error {
		var rows [][]string
		for _, s := range all.Items {
			rows = append(rows, []string{s.Name, s.Kind, stateOfSink(s), fmt.Sprint(s.Sequence), timeOrNever(s.DeliveredAt),
				fmt.Sprint(s.Backlog), fmt.Sprint(s.Missing), admincli.OneLine(s.Error)})
		}
		return admincli.PrintTable(w, []string{"SINK", "KIND", "STATE", "SEQUENCE", "DELIVERED", "BACKLOG", "MISSING",
			"ERROR"}, rows)
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
