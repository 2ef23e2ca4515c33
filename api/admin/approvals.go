package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// A WaitingError is the error of a change of one object that is not made: it waits for approval.
type WaitingError struct{ Approval Approval }

// Error says what the change waits for.
func (e *WaitingError) Error() string {
	return fmt.Sprintf("%s %s is not %s yet: the change waits for a second person's approval (%s, by %s). %s",
		e.Approval.Kind, e.Approval.Name, e.Approval.Action, e.Approval.ID, strings.Join(e.Approval.Rules, ", "),
		e.Approval.Reason)
}

// Waits returns the error of the first change that is not made because it waits; nil: all are made.
func (a ApplyAnswer) Waits() error {
	for _, c := range a.Changes {
		if c.Action == Pending && c.Approval != nil && c.Approval.ID != "" {
			return &WaitingError{*c.Approval}
		}
	}
	return nil
}

// Approvals returns the changes that wait, the oldest first: all that the caller may see.
func (c ApprovalCalls) Approvals(ctx context.Context) (Page[Approval], error) {
	return get[Page[Approval]](ctx, c.caller, "approvals")
}

// Approval returns one change that waits.
func (c ApprovalCalls) Approval(ctx context.Context, id string) (Approval, error) {
	return get[Approval](ctx, c.caller, "approvals/"+url.PathEscape(id))
}

// Approve makes a change that waits, and returns the object as it is then.
func (c ApprovalCalls) Approve(ctx context.Context, id string) (Item, error) {
	return post[Item](ctx, c.caller, "approvals/"+url.PathEscape(id)+"/approve", struct{}{})
}

// Reject ends a change that waits.
func (c ApprovalCalls) Reject(ctx context.Context, id, reason string) error {
	_, err := post[Approval](ctx, c.caller, "approvals/"+url.PathEscape(id)+"/reject", RejectRequest{Reason: reason})
	return err
}

// Withdraw ends a change that the caller has asked for.
func (c ApprovalCalls) Withdraw(ctx context.Context, id string) error {
	return c.caller.call(ctx, request{method: http.MethodDelete, path: "approvals/" + url.PathEscape(id)}, nil)
}
