package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// BatchCmd is the command batch.
type BatchCmd struct {
	List   batchListCmd   `cmd:"" default:"withargs" help:"List batches, newest first."`
	Get    batchGetCmd    `cmd:"" help:"Show how far a batch is, what it waits for and why requests have failed."`
	Cancel batchCancelCmd `cmd:"" help:"Ask for the end of a batch. Requests that are under way may still end."`
}

type batchListCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Organization string `placeholder:"NAME" help:"Only this organization."`
	Project      string `placeholder:"NAME" help:"Only this project."`
	Key          string `placeholder:"ID" predictor:"keys" help:"Only this key, by its id or its name."`
	Status       string `enum:",validating,in_progress,finalizing,completed,failed,expired,cancelling,cancelled" default:"" placeholder:"STATUS" help:"Only this status, such as in_progress or completed."`
	Limit        int    `default:"50" help:"Maximum number of batches (${default})."`
}

// Help is shown below the flags' summary.
func (batchListCmd) Help() string { return "Example:\n  modelgate batch list --status in_progress" }

// Run lists batches.
func (c batchListCmd) Run(ctx context.Context, stdout io.Writer) error {
	if c.Limit < 1 {
		return admincli.Misused("--limit must be at least 1")
	}
	var more bool
	call := func(client *adminapi.Client) (all []adminapi.TenantObject, err error) {
		if c.Key, err = adminflags.IDOf(ctx, client, configv1.KeyKind(), c.Key); err != nil {
			return nil, err
		}
		filters := map[string]string{"organization": c.Organization, "project": c.Project, "key": c.Key, "status": c.Status}
		all, more, err = pagesOf(c.Limit, adminapi.ListOptions{Filters: filters},
			func(o adminapi.ListOptions) (adminapi.TenantPage, error) { return client.Batches(ctx, o) })
		if err == nil && len(all) == 0 {
			err = adminflags.Known(ctx, client, filters)
		}
		return all, err
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, all []adminapi.TenantObject) {
			out.Table("No batch matches.", []string{"KEY", "TENANT", "MODEL", "STATE", "DONE", "CREATED", "ENDED", "BATCH"},
				admincli.Rows(all, func(o adminapi.TenantObject) []string {
					b := batchOf(o)
					return []string{out.Named(o.Key), tenantOf(o), cmp.Or(b.Model, b.Endpoint), stateOf(b), progressOf(b),
						out.Time(moment(b.CreatedAt)), out.Time(moment(b.Ended())), b.ID}
				}))
			sayMore(out, more, len(all))
		})
}

// batchOf reads a batch. What another version writes otherwise is left out.
func batchOf(o adminapi.TenantObject) adminapi.BatchObject {
	b, _ := o.Batch()
	return b
}

// stateOf says how a batch is. One whose requests have failed is not just completed.
func stateOf(b adminapi.BatchObject) string {
	if b.Counts.Failed == 0 {
		return b.Status
	}
	return b.Status + ", " + strconv.FormatInt(b.Counts.Failed, 10) + " failed"
}

func progressOf(b adminapi.BatchObject) string {
	return fmt.Sprintf("%d of %d", b.Done(), b.Counts.Total)
}

// moment is a time of the client API, which counts seconds.
func moment(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

func tenantOf(o adminapi.TenantObject) string {
	if o.Project == "" {
		return o.Organization
	}
	return o.Organization + "/" + o.Project
}

type batchGetCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	ID string `arg:"" help:"Id of the batch."`
}

// batchShown is a batch with what has failed in it.
type batchShown struct {
	adminapi.BatchDetails
	Failures []adminapi.BatchFailure `json:"failures,omitempty"`
}

// Run shows a batch.
func (c batchGetCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (shown batchShown, err error) {
		if shown.BatchDetails, err = client.Batch(ctx, c.ID); err != nil {
			return shown, err
		}
		if batchOf(shown.TenantObject).Counts.Failed > 0 {
			failures, err := client.BatchFailures(ctx, c.ID)
			if err != nil {
				return shown, err
			}
			shown.Failures = failures.Items
		}
		return shown, nil
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call, describeBatch)
}

func describeBatch(out *console.Text, shown batchShown) {
	b := batchOf(shown.TenantObject)
	cost := ""
	if shown.Cost != nil {
		cost = "$" + shown.Cost.USD
	}
	facts := [][2]string{
		{"Batch", b.ID}, {"Key", out.Named(shown.Key)}, {"Tenant", tenantOf(shown.TenantObject)}, {"Model", b.Model},
		{"Endpoint", b.Endpoint}, {"State", stateOf(b)}, {"Done", progressOf(b)}, {"Cost", cost},
		{"Created", out.Time(moment(b.CreatedAt))}, {"Ended", out.Time(moment(b.Ended()))},
	}
	if b.Ended() == 0 {
		facts = append(facts, [2]string{"Expires", out.Time(moment(b.ExpiresAt))})
	}
	if p := shown.Progress; p != nil && b.Ended() == 0 {
		facts = append(facts, [2]string{"Rate", strconv.FormatFloat(p.PerMinute, 'f', 1, 64) + " requests a minute"})
		if p.TriedAt != nil {
			facts = append(facts, [2]string{"Meets", fmt.Sprintf("%d %s, %s: %s", p.Status, p.ErrorCode, out.Time(*p.TriedAt),
				p.Message)})
		}
		if p.WaitsUntil != nil && p.WaitsUntil.After(out.Now) {
			facts = append(facts, [2]string{"Goes on", out.Time(*p.WaitsUntil)})
		}
	}
	for _, e := range b.Errors.Data {
		facts = append(facts, [2]string{"Error", e.Message})
	}
	out.Facts(facts)
	out.Section([]string{"FAILED REQUEST", "STATUS", "CODE", "MESSAGE", "REQUEST"}, admincli.Rows(shown.Failures,
		func(f adminapi.BatchFailure) []string {
			return []string{f.CustomID, strconv.Itoa(f.Status), f.ErrorCode, f.Message, f.RequestID}
		}))
}

type batchCancelCmd struct {
	adminflags.AdminFlags
	ID string `arg:"" help:"Id of the batch."`
}

// Run asks for the end of a batch.
func (c batchCancelCmd) Run(ctx context.Context, stdout io.Writer) error {
	return change(stdout, c.AdminFlags, nil, func(client *adminapi.Client) (string, error) {
		o, err := client.CancelBatch(ctx, c.ID)
		return "Batch " + c.ID + " is " + batchOf(o).Status, err
	})
}
