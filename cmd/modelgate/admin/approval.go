package admin

import (
	"context"
	"io"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// ApprovalCmd is the command approval.
type ApprovalCmd struct {
	List     approvalListCmd     `cmd:"" default:"withargs" help:"List the changes that wait for approval: your own, and those that you may approve."`
	Show     approvalShowCmd     `cmd:"" help:"Show one change that waits, with its difference."`
	Approve  approvalApproveCmd  `cmd:"" help:"Approve a change of somebody else. It is made at once."`
	Reject   approvalRejectCmd   `cmd:"" help:"Reject a change of somebody else."`
	Withdraw approvalWithdrawCmd `cmd:"" help:"Take back a change that you have asked for."`
}

// Help is shown below the flags' summary.
func (ApprovalCmd) Help() string {
	return "Approving takes a person: sign in with modelgate login first. See docs/approvals.md.\n\nExample:\n  modelgate approval approve apr_01JD"
}

type approvalListCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
}

// Run lists what waits.
func (c approvalListCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.Page[adminapi.Approval], error) { return client.Approvals(ctx) }
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call, waitingTable)
}

func waitingTable(out *console.Text, all adminapi.Page[adminapi.Approval]) {
	out.Table("No change waits for approval.", []string{"OBJECT", "ASKED BY", "ASKED", "EXPIRES", "STATE", "ID"},
		admincli.Rows(all.Items, func(a adminapi.Approval) []string {
			return []string{a.Kind + " " + out.Named(a.Name), out.Named(a.AskedBy), out.TimeOr(a.AskedAt, "never"),
				out.TimeOr(a.ExpiresAt, "never"), stateOfWaiting(a), a.ID}
		}))
}

func stateOfWaiting(a adminapi.Approval) string {
	switch {
	case a.Stale:
		return "stale: the object was changed since"
	case a.Own:
		return "waits for somebody else"
	case a.MayDecide:
		return "waits for you"
	}
	return "waits"
}

type approvalShowCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	ID string `arg:"" help:"Id of the change."`
}

// Run shows one change.
func (c approvalShowCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.Approval, error) { return client.Approval(ctx, c.ID) }
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call, func(out *console.Text, a adminapi.Approval) {
		out.Printf("Object    %s %s\nRules     %s\nReason    %s\nAsked by  %s, %s\nExpires   %s\nState     %s\n\n%s",
			a.Kind, out.Named(a.Name), strings.Join(a.Rules, ", "), a.Reason, out.Named(a.AskedBy),
			out.TimeOr(a.AskedAt, "never"), out.TimeOr(a.ExpiresAt, "never"), stateOfWaiting(a), a.Diff)
	})
}

type approvalApproveCmd struct {
	adminflags.AdminFlags
	adminflags.WaitFlags
	ID string `arg:"" help:"Id of the change."`
}

// Run approves a change.
func (c approvalApproveCmd) Run(ctx context.Context, stdout io.Writer) error {
	return change(stdout, c.AdminFlags, &c.WaitFlags, func(client *adminapi.Client) (string, error) {
		made, err := client.Approve(ctx, c.ID)
		return made.Kind.Name + " " + made.Name + " approved", err
	})
}

type approvalRejectCmd struct {
	adminflags.AdminFlags
	Reason string `placeholder:"TEXT" help:"Why, for the audit log."`
	ID     string `arg:"" help:"Id of the change."`
}

// Run rejects a change.
func (c approvalRejectCmd) Run(ctx context.Context, stdout io.Writer) error {
	return change(stdout, c.AdminFlags, nil, func(client *adminapi.Client) (string, error) {
		_, err := client.Reject(ctx, c.ID, adminapi.RejectRequest{Reason: c.Reason})
		return c.ID + " rejected", err
	})
}

type approvalWithdrawCmd struct {
	adminflags.AdminFlags
	ID string `arg:"" help:"Id of the change."`
}

// Run takes back a change.
func (c approvalWithdrawCmd) Run(ctx context.Context, stdout io.Writer) error {
	return change(stdout, c.AdminFlags, nil, func(client *adminapi.Client) (string, error) {
		return c.ID + " withdrawn", client.Withdraw(ctx, c.ID)
	})
}
