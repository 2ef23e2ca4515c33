package inspect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// PolicyCmd is the command policy.
type PolicyCmd struct {
	Test policyTestCmd `cmd:"" help:"Show what policies would have done with the requests of the last day."`
}

type policyTestCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Filename []string `short:"f" sep:"none" placeholder:"FILE" help:"File with Policies, YAML or JSON. May be given more than once."`
	Name     []string `arg:"" optional:"" help:"Stored Policies. Without names and files: all that are not disabled."`
	Since    string   `default:"24h" placeholder:"WHEN" help:"Start: a time such as 2026-11-01, or how long ago, such as 24h or 7d (${default})."`
	Until    string   `default:"0s" placeholder:"WHEN" help:"End, in the same form. Default: now."`
}

// Help is shown below the flags' summary.
func (policyTestCmd) Help() string {
	return `Examples:
  modelgate policy test -f policy.yaml
  modelgate policy test office --since 7d`
}

// Run tries policies on the request log. It changes nothing.
func (c policyTestCmd) Run(ctx context.Context, stdout io.Writer) error {
	now := time.Now()
	start, end, err := adminflags.ParsePeriod(c.Since, c.Until, now)
	if err != nil {
		return err
	}
	call := func(client *adminapi.Client) (adminapi.PolicyTrial, error) {
		policies, err := c.policies(ctx, client)
		if err != nil {
			return adminapi.PolicyTrial{}, err
		}
		return client.TestPolicies(ctx, policies, map[string]string{"start": number(start.Unix()),
			"end": number(end.Unix() + 1)})
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call, showTrial)
}

// policies returns those of the files and those that are named.
func (c policyTestCmd) policies(ctx context.Context, client *adminapi.Client) ([]*configv1.Policy, error) {
	var all []*configv1.Policy
	if len(c.Filename) > 0 {
		docs, err := cmdline.FileFlags{Filename: c.Filename}.ReadSome(os.Stdin)
		if err != nil {
			return nil, err
		}
		for _, o := range cmdline.ObjectsOf(docs) {
			if p, ok := o.(*configv1.Policy); ok {
				all = append(all, p)
			}
		}
		if len(all) == 0 {
			return nil, admincli.Misused("the files have no Policy")
		}
	}
	for _, name := range c.Name {
		item, err := client.Get(ctx, configv1.KindOf((*configv1.Policy)(nil)), name)
		if err != nil {
			return nil, err
		}
		p, ok := item.Object.(*configv1.Policy)
		if !ok {
			return nil, fmt.Errorf("the policy %s cannot be read: %s", name, item.Status.Error)
		}
		all = append(all, p)
	}
	return all, nil
}

func showTrial(out *console.Text, t adminapi.PolicyTrial) {
	began := t.Start
	if t.JudgedFrom != nil {
		began = *t.JudgedFrom
	}
	out.Printf("%s would have refused %d of %d requests from %s to %s.\n",
		strings.Join(t.Policies, ", "), t.Refused, t.Requests, began.UTC().Format(time.RFC3339),
		t.End.UTC().Format(time.RFC3339))
	for _, said := range []struct {
		of   bool
		text string
	}{
		{t.Refused > 0, fmt.Sprintf("%d of these were served.", t.Served)},
		{t.Unknown > 0, fmt.Sprintf("%d more may have been refused, or for another model: the request log does not have the facts in MISSING.", t.Unknown)},
		{t.JudgedFrom != nil, "The time was not enough for earlier requests. Choose less with --since and --until."},
		{t.Chosen > 0, fmt.Sprintf("%d would have been for the model that a rule chooses.", t.Chosen)},
	} {
		if said.of {
			out.Println(said.text)
		}
	}
	out.Section([]string{"RULE", "REFUSED", "CHOSEN", "FAILED", "UNKNOWN", "MISSING", "EXAMPLES", "NOTE"},
		admincli.Rows(t.Rules, func(r adminapi.PolicyTrialRule) []string {
			note := ""
			if r.Observe {
				note = "observes only"
			}
			return []string{r.Rule, number(r.Refused), number(r.Chosen), number(r.Failed), number(r.Unknown),
				strings.Join(r.Missing, ", "), strings.Join(r.Examples, " "), note}
		}))
	out.Section([]string{"KEY", "REFUSED"}, admincli.Rows(t.Keys, trialRow))
	out.Section([]string{"MODEL", "REFUSED"}, admincli.Rows(t.Models, trialRow))
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func trialRow(c adminapi.PolicyTrialCount) []string {
	return []string{cmp.Or(c.DisplayName, c.Name, "all others"), number(c.Refused)}
}
