package admin

import (
	"cmp"
	"context"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
	"github.com/modelgate/modelgate/cmd/modelgate/report"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// UsageCmd is the command usage.
type UsageCmd struct {
	adminflags.AdminFlags
	By           string `enum:"day,model,provider,key,project,organization,user" default:"day" help:"Group by ${enum}. The most expensive are first."`
	Since        string `default:"30d" placeholder:"WHEN" help:"Start: a time such as 2026-11-01, or how long ago, such as 24h or 7d (${default})."`
	Until        string `default:"0s" placeholder:"WHEN" help:"End, in the same form. Default: now."`
	Organization string `placeholder:"NAME" help:"Only this organization."`
	Project      string `placeholder:"NAME" help:"Only this project."`
	Key          string `placeholder:"ID" predictor:"keys" help:"Only this key, by its id or its name."`
	Model        string `placeholder:"NAME" predictor:"models" help:"Only this model."`
	Output       string `short:"o" enum:"table,text,json,yaml,csv" default:"table" help:"table, json, yaml or csv."`
}

// Help is shown below the flags' summary.
func (UsageCmd) Help() string {
	return "Example:\n  modelgate usage --by key --since 2026-11-01 -o csv"
}

// Run prints what was used.
func (c UsageCmd) Run(ctx context.Context, stdout io.Writer) error {
	start, end, err := adminflags.ParsePeriod(c.Since, c.Until, time.Now())
	if err != nil {
		return err
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	if c.Key, err = adminflags.FilterID(ctx, client, configv1.KeyKind(), c.Key); err != nil {
		return err
	}
	filters := map[string]string{"organization": c.Organization, "project": c.Project, "key": c.Key, "model": c.Model}
	rows, err := report.Used(ctx, client, c.By, start, end, filters)
	if err == nil && !slices.ContainsFunc(rows, func(r report.Usage) bool { return r.Requests > 0 }) {
		err = adminflags.Known(ctx, client, filters)
	}
	if err != nil {
		return admincli.Said(err)
	}
	return c.show(stdout, rows)
}

func (c UsageCmd) show(stdout io.Writer, rows []report.Usage) error {
	header := []string{c.By, "requests", "input_tokens", "output_tokens", "cost_usd"}
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = []string{r.Name, strconv.FormatInt(r.Requests, 10), strconv.FormatInt(r.InputTokens, 10),
			strconv.FormatInt(r.OutputTokens, 10), r.CostUSD}
	}
	if c.Output == "csv" {
		for i := range cells {
			cells[i][0] = httpapi.CSVText(cells[i][0])
		}
		w := csv.NewWriter(stdout)
		return cmp.Or(w.Write(header), w.WriteAll(cells))
	}
	return adminflags.OutputFlags{Output: c.Output}.Show(stdout, rows, func(out *console.Text) {
		for i := range cells {
			cells[i][0] = cmp.Or(rows[i].DisplayName, cells[i][0], "(none)")
		}
		out.Table("Nothing was used in this time.",
			[]string{"BY " + c.By, "REQUESTS", "INPUT TOKENS", "OUTPUT TOKENS", "USD"}, cells)
	})
}
