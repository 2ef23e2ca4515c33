package admin

import (
	"context"
	"io"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
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
	client, err := c.Client()
	if err != nil {
		return err
	}
	r, err := report.Make(ctx, client, from, to, now)
	if err == nil {
		r.ByOrganization, err = usedBy(ctx, client, "organization", from, to)
	}
	if err == nil {
		r.ByModel, err = usedBy(ctx, client, "model", from, to)
	}
	if err != nil {
		return admincli.Said(err)
	}
	return adminflags.OutputFlags{Output: c.Output}.Show(stdout, r, r.Write)
}

// usedBy returns what was used, by organization or model.
func usedBy(ctx context.Context, client *adminapi.Client, by string, from, to time.Time) ([]report.Usage, error) {
	rows, err := UsageCmd{By: by}.grouped(ctx, client, from, to)
	used := make([]report.Usage, len(rows))
	for i, r := range rows {
		used[i] = report.Usage{Name: r.Name, Requests: r.Requests, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
			CostUSD: r.cost.String()}
	}
	return used, err
}
