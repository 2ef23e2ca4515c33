package admin

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// FindingsCmd is the command findings.
type FindingsCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Since        string `default:"24h" placeholder:"WHEN" help:"Start: a time such as 2026-11-01, or how long ago, such as 24h or 7d (${default})."`
	Until        string `default:"0s" placeholder:"WHEN" help:"End, in the same form. Default: now."`
	Rule         string `placeholder:"NAME" help:"Only this rule of a guardrail (personal/contact) or policy (policy office/tools), or all rules of the object."`
	Action       string `placeholder:"NAME" help:"Only this action: observe, mask, block, or failed, where a checker was away."`
	Key          string `placeholder:"NAME" help:"Only keys with these words in their name, their id or their end."`
	Organization string `placeholder:"NAME" help:"Only this organization."`
	Project      string `placeholder:"NAME" help:"Only this project."`
	User         string `placeholder:"NAME" help:"Only this user."`
	Model        string `placeholder:"NAME" predictor:"models" help:"Only this model."`
}

// Help is shown below the flags' summary.
func (FindingsCmd) Help() string {
	return `Examples:
  modelgate findings --since 7d --rule personal
  modelgate requests --rule personal/contact       # the requests`
}

// Run prints what guardrails and policies have found.
func (c FindingsCmd) Run(ctx context.Context, stdout io.Writer) error {
	start, end, err := adminflags.ParsePeriod(c.Since, c.Until, time.Now())
	if err != nil {
		return err
	}
	call := func(client *adminapi.Client) (adminapi.Findings, error) {
		filters := map[string]string{
			"start": strconv.FormatInt(start.Unix(), 10), "end": strconv.FormatInt(end.Unix()+1, 10),
			"rule": c.Rule, "action": c.Action, "key_name": c.Key, "organization": c.Organization, "project": c.Project,
			"user": c.User, "model": c.Model}
		found, err := client.Findings(ctx, adminapi.ListOptions{Filters: filters})
		if err == nil && len(found.Items) == 0 {
			err = adminflags.Known(ctx, client, filters)
		}
		return found, err
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, found adminapi.Findings) {
			out.Table("No rule has found anything in this time.", []string{"RULE", "ACTION", "REQUESTS", "MATCHES", "LAST", "EXAMPLES"},
				admincli.Rows(found.Items, func(f adminapi.Finding) []string {
					return []string{f.Kind + " " + f.Rule, f.Action, strconv.FormatInt(f.Requests, 10),
						strconv.FormatInt(f.Matches, 10), out.Time(f.Last), strings.Join(f.Examples, " ")}
				}))
			if found.LeftOut > 0 {
				out.Printf("\n%d more sums have fewer requests.\n", found.LeftOut)
			}
			if found.CountedFrom != nil {
				out.Printf("\nOnly the latest requests are counted, since %s.\n", out.Time(*found.CountedFrom))
			}
		})
}
