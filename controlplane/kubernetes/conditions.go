package kubernetes

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/modelgate/modelgate/api/config/crd"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// Reasons of conditions.
const (
	reasonAccepted        = "Accepted"
	reasonResolved        = "ResolvedRefs"
	reasonProgrammed      = "Programmed"
	reasonInvalid         = "Invalid"
	reasonConflict        = "Conflict"
	reasonNotPermitted    = "NotPermitted"
	reasonNotBound        = "NamespaceNotBound"
	reasonForbidden       = "Forbidden"
	reasonApproval        = "WaitsForApproval"
	reasonRefs            = "RefsNotResolved"
	reasonRefNotPermitted = "RefNotPermitted"
	reasonNotFound        = "NotFound"
	reasonKeyNotFound     = "KeyNotFound"
	reasonLastGood        = "LastGood"
	reasonNotAccepted     = "NotAccepted"
	reasonPending         = "Pending"
	reasonRefused         = "Refused"
)

// A condition is one of an object.
type condition struct {
	status          metav1.ConditionStatus
	reason, message string
}

// conditions are those of an object, by type.
type conditions map[string]condition

// conditionsOf says what became of an object, before it is known who has taken it.
func conditionsOf(o *outcome) conditions {
	if o.err == nil && o.held == "" {
		return conditions{
			crd.Accepted:     {metav1.ConditionTrue, reasonAccepted, "It is stored."},
			crd.ResolvedRefs: {metav1.ConditionTrue, reasonResolved, "All that it refers to is there."},
			crd.Programmed:   {metav1.ConditionFalse, reasonPending, "The data plane has not taken it yet."},
		}
	}
	r := refusalOf(o)
	all := conditions{
		crd.Accepted:     {metav1.ConditionFalse, r.reason, r.message},
		crd.ResolvedRefs: {metav1.ConditionTrue, reasonResolved, "Nothing that it refers to is known to be missing."},
		crd.Programmed:   {metav1.ConditionFalse, reasonNotAccepted, "It is not in force."},
	}
	if r.refs {
		all[crd.ResolvedRefs] = condition{metav1.ConditionFalse, r.reason, r.message}
		all[crd.Accepted] = condition{metav1.ConditionFalse, reasonRefs, r.message}
	}
	switch {
	case o.owned && r.waits:
		all[crd.Accepted] = condition{metav1.ConditionTrue, reasonAccepted, "It is stored."}
		all[crd.Programmed] = condition{metav1.ConditionTrue, reasonLastGood,
			"The last good version stays in force, with what it referred to."}
	case o.owned:
		all[crd.Programmed] = condition{metav1.ConditionFalse, reasonLastGood, "The last good version stays in force."}
	}
	return all
}

// refusalOf says why an object is not taken.
func refusalOf(o *outcome) *refusal {
	if o.err == nil {
		return refuse(reasonApproval, "it waits for a second person's approval: %s", o.held)
	}
	if r, ok := errors.AsType[*refusal](o.err); ok {
		return r
	}
	if invalid, ok := errors.AsType[configv1.Errors](o.err); ok {
		r := refuse(reasonInvalid, "%s", invalid.Error())
		for _, e := range invalid {
			if e.Unresolved {
				r.reason, r.refs = reasonNotFound, true
			}
		}
		return r
	}
	e, ok := errors.AsType[*openai.Error](o.err)
	switch {
	case !ok:
		return refuse(reasonInvalid, "%v", o.err)
	case e.Code == openai.CodeDeclaredElsewhere:
		return refuse(reasonConflict, "%s", e.Message)
	case e.Code == openai.CodeInsufficientPermissions:
		return refuse(reasonNotPermitted, "%s", e.Message)
	}
	return refuse(reasonInvalid, "%s", e.Message)
}

// programmed says that the data plane has an object, or why not.
func programmed(missing []string, objectError string) condition {
	switch {
	case objectError != "":
		return condition{metav1.ConditionFalse, reasonRefused, objectError}
	case len(missing) > 0:
		return condition{metav1.ConditionFalse, reasonPending, fmt.Sprintf("waiting for %v", missing)}
	}
	return condition{metav1.ConditionTrue, reasonProgrammed, "All of the data plane has taken it."}
}
