package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// RequestsCmd is the command requests.
type RequestsCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Since        string        `default:"24h" placeholder:"WHEN" help:"Start: a time such as 2026-11-01, or how long ago, such as 24h or 7d (${default})."`
	Until        string        `default:"0s" placeholder:"WHEN" help:"End, in the same form. Default: now."`
	Outcome      string        `placeholder:"NAME" help:"Only this outcome: served, error, rejected or cancelled, or an exact one such as failed."`
	Status       string        `placeholder:"CODE" help:"Only this HTTP status."`
	Key          string        `placeholder:"NAME" help:"Only keys with these words in their name, their id or their end."`
	Organization string        `placeholder:"NAME" help:"Only this organization."`
	Project      string        `placeholder:"NAME" help:"Only this project."`
	User         string        `placeholder:"NAME" help:"Only this user."`
	Model        string        `placeholder:"NAME" predictor:"models" help:"Only this model."`
	Provider     string        `placeholder:"NAME" help:"Only this provider."`
	MinCostUSD   string        `name:"min-cost-usd" placeholder:"USD" help:"Only requests that cost this much or more."`
	MinDuration  time.Duration `placeholder:"TIME" help:"Only requests that took this long or longer, such as 5s."`
	Rule         string        `placeholder:"NAME" help:"Only requests in which this rule of a guardrail (personal/contact) or policy (policy office/tools) has found something, or any rule of the object."`
	Limit        int           `default:"50" help:"Maximum number of requests, newest first (${default})."`
	Follow       bool          `short:"f" help:"Print a line for each of these requests, and for each further one, until you press Ctrl-C."`
	Every        time.Duration `default:"1s" help:"How often --follow looks for further requests (${default})."`
	ID           string        `arg:"" optional:"" help:"Id of a request (x-request-id), or of an exchange. Shows its attempts, limits and cost."`
}

// Help is shown below the flags' summary.
func (RequestsCmd) Help() string {
	return `Examples:
  modelgate requests --outcome error --since 1h
  modelgate requests --follow --key billing
  modelgate requests 7f0c9a52-3a53-4f0e-9d2b-0d9f0f6a7c11`
}

// Run prints the request log, or one request.
func (c RequestsCmd) Run(ctx context.Context, stdout io.Writer) error {
	filters, err := c.filters(time.Now())
	if err != nil {
		return err
	}
	if c.Limit < 1 {
		return admincli.Misused("--limit must be at least 1")
	}
	if c.Follow {
		return c.follow(ctx, stdout)
	}
	var more bool
	call := func(client *adminapi.Client) (found []adminapi.Exchange, err error) {
		found, more, err = pagesOf(c.Limit, adminapi.ListOptions{Filters: filters},
			func(o adminapi.ListOptions) (adminapi.Page[adminapi.Exchange], error) { return client.Requests(ctx, o) })
		if err == nil && c.ID == "" && len(found) == 0 {
			err = adminflags.Known(ctx, client, filters)
		}
		if err != nil || c.ID == "" {
			return found, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("the request log has no request %q: it shows a request seconds after it has ended, and keeps it for 30 days", c.ID)
		}
		for i := 0; i < len(found) && err == nil; i++ {
			found[i], err = client.Request(ctx, found[i].ID)
		}
		return found, err
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, found []adminapi.Exchange) {
			if c.ID == "" {
				requestTable(out, found)
				sayMore(out, more, len(found))
				return
			}
			for i := range found {
				describeRequest(out, &found[i])
			}
		})
}

// filters are the filters of the request log. A request that is named may be of any time.
func (c RequestsCmd) filters(now time.Time) (map[string]string, error) {
	if c.ID != "" {
		return map[string]string{"request_id": c.ID}, nil
	}
	start, end, err := adminflags.ParsePeriod(c.Since, c.Until, now)
	if err != nil {
		return nil, err
	}
	all := map[string]string{"start": strconv.FormatInt(start.Unix(), 10), "end": strconv.FormatInt(end.Unix()+1, 10),
		"outcome": c.Outcome, "status": c.Status, "key_name": c.Key, "organization": c.Organization, "project": c.Project,
		"user": c.User, "model": c.Model, "provider": c.Provider, "min_cost_usd": c.MinCostUSD, "rule": c.Rule}
	if c.MinDuration > 0 {
		all["min_duration_ms"] = strconv.FormatInt(c.MinDuration.Milliseconds(), 10)
	}
	return all, nil
}

func requestTable(out *console.Text, all []adminapi.Exchange) {
	out.Table("No request matches.",
		[]string{"TIME", "KEY", "MODEL", "PROVIDER", "RESULT", "TRIES", "DURATION", "USD", "REQUEST"},
		admincli.Rows(all, func(e adminapi.Exchange) []string {
			return []string{out.Time(e.Start), keyOf(&e), e.Model, e.Provider, resultOf(&e), strconv.Itoa(e.Attempts),
				milliseconds(e.DurationMS), costOf(&e), e.RequestID}
		}))
}

// resultOf says in one word or two how a request ended.
func resultOf(e *adminapi.Exchange) string {
	text := strconv.Itoa(e.Status) + " " + e.Outcome
	if why := cmp.Or(e.Reason, e.ErrorCode); why != "" {
		text += " " + why
	}
	if e.Requests > 1 {
		text += " × " + strconv.FormatInt(e.Requests, 10)
	}
	return text
}

func keyOf(e *adminapi.Exchange) string {
	if e.Key == "" && e.KeyHint != "" {
		return "unknown, ends with " + e.KeyHint
	}
	return cmp.Or(e.KeyName, e.Key)
}

func costOf(e *adminapi.Exchange) string {
	if !e.Priced {
		return ""
	}
	return e.CostUSD
}

func milliseconds(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

// describeRequest prints what happened to a request.
func describeRequest(out *console.Text, e *adminapi.Exchange) {
	detail := e.Detail
	if detail == nil {
		detail = &adminapi.ExchangeDetail{}
	}
	if e.Why != "" {
		out.Println(adminapi.OneLine(e.Why) + "\n")
	}
	out.Facts([][2]string{
		{"Request", e.RequestID}, {"Exchange", e.ID}, {"Trace", detail.TraceID},
		{"Time", e.Start.UTC().Format(time.RFC3339Nano)}, {"Duration", milliseconds(e.DurationMS)},
		{"Key", keyOf(e)}, {"Organization", e.Organization}, {"Project", e.Project}, {"User", e.User},
		{"Operation", e.Operation}, {"Model", e.Model}, {"Result", resultOf(e)},
		{"Client got", gotOf(e, detail)}, {"Refused by", out.Named(e.RefusedBy)},
		{"Plan", strings.Join(detail.Plan, ", ")}, {"Guardrails", strings.Join(detail.Guards, ", ")},
		{"Cache", detail.Cache}, {"Policy", detail.Policy},
		{"Dropped", detail.Dropped}, {"Adjusted", detail.Adjusted},
		{"Provider's id", detail.UpstreamID},
	})
	describeAttempts(out, e)
	out.Section([]string{"LIMIT", "RESERVED", "SETTLED"}, admincli.Rows(detail.Limits,
		func(l adminapi.LimitHeld) []string { return []string{out.Named(l.Rule), l.Reserved, l.Settled} }))
	describeCost(out, e)
}

// gotOf is the error as the client saw it.
func gotOf(e *adminapi.Exchange, detail *adminapi.ExchangeDetail) string {
	if e.ErrorCode == "" && detail.Message == "" {
		return ""
	}
	return strings.TrimSpace(strconv.Itoa(e.Status) + " " + e.ErrorCode + " " + detail.Message)
}

func describeAttempts(out *console.Text, e *adminapi.Exchange) {
	if len(e.AttemptList) == 0 {
		out.WriteString("\nNo attempt was made.\n")
		return
	}
	var rows [][]string
	for i, a := range e.AttemptList {
		status := "none" // there was no answer
		if a.Status != 0 {
			status = strconv.Itoa(a.Status)
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), a.Kind, a.Provider + "/" + a.Model, status, a.Error,
			milliseconds(a.StartMS), milliseconds(a.FirstByteMS), milliseconds(a.DurationMS)})
	}
	out.Section([]string{"ATTEMPT", "KIND", "TARGET", "STATUS", "ERROR", "START", "FIRST BYTE", "DURATION"},
		rows)
}

func describeCost(out *console.Text, e *adminapi.Exchange) {
	if !e.Priced || e.Cost == nil {
		return
	}
	if e.Cost.Problem != "" {
		out.Println("\nCost:", adminapi.OneLine(e.Cost.Problem))
	}
	rows := admincli.Rows(e.Cost.Lines, func(l adminapi.CostLine) []string {
		return []string{l.Part, strconv.FormatInt(l.Count, 10), l.PriceUSD, l.CostUSD}
	})
	out.Section([]string{"COST", "COUNT", "PRICE", "USD"}, append(rows, []string{"total", "", "", e.CostUSD}))
}
