package admin

import (
	"fmt"
	"slices"
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

// Changing reports whether anything is different after changes.
func Changing(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Action != Unchanged })
}
