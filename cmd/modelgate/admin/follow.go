package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
	"github.com/modelgate/modelgate/internal/timing"
)

const (
	// followMost is how many of the newest requests are looked at each time.
	followMost = 500
	// followBack is how long a request may have run to be among them.
	followBack = 15 * time.Minute
)

// follow prints the newest requests, and then each that is added to the request log, until ctx ends.
func (c RequestsCmd) follow(ctx context.Context, stdout io.Writer) error {
	if c.ID != "" || c.Until != "0s" {
		return admincli.Misused("--follow goes with neither the id of a request nor --until")
	}
	if c.Every <= 0 {
		return admincli.Misused("--every must be more than 0")
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	most, seen, later := c.Limit, map[string]bool{}, false
	look := func() bool {
		var found []adminapi.Exchange
		if found, err = c.newest(ctx, client, most, later); err != nil {
			return true
		}
		fresh := slices.DeleteFunc(slices.Clone(found), func(e adminapi.Exchange) bool { return seen[e.ID] })
		if later && len(fresh) == most {
			_, err = fmt.Fprintf(stdout, "More than %d requests at once: some are not shown.\n", most)
		}
		clear(seen)
		for _, e := range found {
			seen[e.ID] = true
		}
		err = cmp.Or(err, c.printLines(stdout, fresh))
		most, c.Since, later = followMost, followBack.String(), true
		return err != nil
	}
	_ = timing.Until(ctx, c.Every, look) // it says only that ctx has ended
	if ctx.Err() != nil {
		err = nil // somebody has seen enough
	}
	return admincli.Said(err)
}

// newest returns the newest requests, newest first. The first time, filters that name what is not there are an error.
func (c RequestsCmd) newest(ctx context.Context, client *adminapi.Client, most int,
	later bool) ([]adminapi.Exchange, error) {
	filters, err := c.filters(time.Now())
	if err != nil {
		return nil, err
	}
	found, _, err := pagesOf(most, adminapi.ListOptions{Filters: filters},
		func(o adminapi.ListOptions) (adminapi.Page[adminapi.Exchange], error) { return client.Requests(ctx, o) })
	if err == nil && len(found) == 0 && !later {
		err = adminflags.Known(ctx, client, filters)
	}
	return found, err
}

// printLines prints requests, oldest first.
func (c RequestsCmd) printLines(stdout io.Writer, newestFirst []adminapi.Exchange) error {
	for _, e := range slices.Backward(newestFirst) {
		err := c.Show(stdout, e, func(out *console.Text) { out.Println(out.Line(lineOf(&e))) })
		if err != nil {
			return err
		}
	}
	return nil
}

func lineOf(e *adminapi.Exchange) *console.Request {
	took := time.Duration(e.DurationMS) * time.Millisecond
	return &console.Request{At: e.Start.Add(took), Status: e.Status, Outcome: e.Outcome, Took: took,
		What: cmp.Or(e.Model, e.Operation), Provider: e.Provider, Key: keyOf(e), Attempts: e.Attempts,
		Tokens: e.InputTokens + e.OutputTokens, CostUSD: costOf(e), Why: e.ErrorCode, ID: e.RequestID}
}
