package admin

import (
	"context"
	"io"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
	"github.com/modelgate/modelgate/cmd/modelgate/report"
)

// ReportCmd is the command report.
type ReportCmd struct {
	adminflags.AdminFlags
	Since  string `default:"30d" placeholder:"WHEN" help:"Start: a time such as 2026-11-01, or how long ago, such as 24h or 7d (${default})."`
	Until  string `default:"0s" placeholder:"WHEN" help:"End, in the same form. Default: now."`
	Output string `short:"o" enum:"markdown,json,yaml" default:"markdown" help:"markdown, json or yaml."`
}

// Help is shown below the flags' summary.
func (ReportCmd) Help() string {
	return "The role auditor may see all of it.\n\nExample:\n  modelgate report --since 2026-10-01 --until 2026-11-01 > october.md"
}

// Run prints who could do what, what changed and what was used.
func (c ReportCmd) Run(ctx context.Context, stdout io.Writer) error {
	now := time.Now()
	from, to, err := adminflags.ParsePeriod(c.Since, c.Until, now)
	if err != nil {
		return err
	}
	if !from.Before(to) {
		return admincli.Misused("--since: the period begins at or after its end, %s", to.UTC().Format(time.RFC3339))
	}
	call := func(client *adminapi.Client) (*report.Report, error) { return report.Make(ctx, client, from, to, now) }
	return adminflags.Ask(ctx, c.AdminFlags, adminflags.OutputFlags{Output: c.Output}, stdout, call,
		func(out *console.Text, r *report.Report) { r.Write(&out.Builder) })
}
