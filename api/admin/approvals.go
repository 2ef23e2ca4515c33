package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Pending is the action of a change that is not made: it waits for a second person's approval.
const Pending = "pending"

// An Approval is a change that waits for a second person.
type Approval struct {
	ID string `json:"id,omitempty"`
	// Action is [Created] or [Updated]: what the approval does.
	Action string `json:"action"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	// Rules are the names of the ApprovalRules by which it waits, and Reason says why, as a sentence.
	Rules  []string `json:"rules"`
	Reason string   `json:"reason"`
	// AskedBy is the account, or the id of the token, that asked for it.
	AskedBy   string     `json:"asked_by,omitempty"`
	AskedAt   *time.Time `json:"asked_at,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// Stale means that the object was changed since: the change can only be rejected, or withdrawn and asked for anew.
	Stale bool `json:"stale,omitempty"`
	// MayDecide means that the caller may approve and reject it, and Own that the caller asked for it.
	MayDecide bool `json:"may_decide,omitempty"`
	Own       bool `json:"own,omitempty"`
	// Diff is a unified diff from the object as it is now to the requested one.
	Diff string `json:"diff,omitempty"`
}

// A Waiting is the answer to a change that waits. Pending is true.
type Waiting struct {
	Pending  bool     `json:"pending"`
	Approval Approval `json:"approval"`
}

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

// A RejectRequest says why a change is rejected.
type RejectRequest struct {
	Reason string `json:"reason,omitempty"`
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
