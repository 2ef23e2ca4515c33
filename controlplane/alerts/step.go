package alerts

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A finding is a subject that has the condition of a rule. The value is the figure that says how bad it is, if
// there is one.
type finding struct {
	subject, message string
	value            float64
}

// A judged is a rule with the subjects in its condition. If they are not known, its alerts stay as they are.
type judged struct {
	rule   *configv1.AlertRule
	found  []finding
	unsure bool
}

// A change is a step of one alert. After is nil if the alert ends. Event is nil if nobody is notified.
type change struct {
	id    string
	after *adminapi.Alert
	event *adminapi.AlertEvent
}

// idOf returns the id of the alert of a rule and a subject.
func idOf(rule, subject string) string {
	hash := sha256.Sum256([]byte(subject))
	return rule + "." + hex.EncodeToString(hash[:12])
}

// step returns what changes at a time, by rule and subject. Known are the alerts by id. It modifies nothing.
func step(now time.Time, rules []judged, known map[string]adminapi.Alert) []change {
	var changes []change
	seen := map[string]bool{}
	for _, j := range rules {
		if j.rule.GetDisabled() {
			continue
		}
		for _, f := range j.found {
			id := idOf(j.rule.GetName(), f.subject)
			seen[id] = true
			a, was := known[id]
			if was && a.Condition != j.rule.GetCondition().String() {
				continue // of another condition: it ends first
			}
			if c, changed := held(now, j.rule, f, a, was); changed {
				changes = append(changes, c)
			}
		}
	}
	for id, a := range known {
		i := slices.IndexFunc(rules, func(j judged) bool {
			return j.rule.GetName() == a.Rule && !j.rule.GetDisabled() && j.rule.GetCondition().String() == a.Condition
		})
		switch {
		case i < 0:
			changes = append(changes, ended(now, id, a, "The rule was removed, disabled or changed."))
		case seen[id] || rules[i].unsure:
		default:
			if c, changed := better(now, rules[i].rule, id, a); changed {
				changes = append(changes, c)
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.id, b.id) })
	return changes
}

// held returns the step of an alert whose condition holds.
func held(now time.Time, r *configv1.AlertRule, f finding, a adminapi.Alert, was bool) (change, bool) {
	id := idOf(r.GetName(), f.subject)
	if !was {
		a = adminapi.Alert{Rule: r.GetName(), Condition: r.GetCondition().String(), Subject: f.subject,
			Incident: incidentOf(r, f.subject), State: adminapi.AlertPending, Since: now}
	}
	news := a.Message != f.message
	a.Message = f.message
	if a.PeakAt == nil || f.value > a.PeakValue {
		a.Peak, a.PeakAt, a.PeakValue = f.message, &now, f.value
	}
	switch {
	case a.State == adminapi.AlertFiring:
		news = news || a.BetterSince != nil
		a.BetterSince = nil
		return change{id: id, after: &a}, news
	case now.Sub(a.Since) < r.FiresAfter():
		return change{id: id, after: &a}, news
	}
	a.State, a.FiredAt, a.Receivers = adminapi.AlertFiring, &now, r.GetReceivers()
	return change{id: id, after: &a, event: &adminapi.AlertEvent{At: now, Type: adminapi.AlertFired, Rule: a.Rule,
		Incident: a.Incident, Condition: a.Condition, Subject: a.Subject, Message: a.Message,
		Deliveries: waiting(a.Receivers, now)}}, true
}

// better returns the step of an alert whose condition does not hold.
func better(now time.Time, r *configv1.AlertRule, id string, a adminapi.Alert) (change, bool) {
	switch {
	case a.State == adminapi.AlertPending:
		return change{id: id}, true
	case a.BetterSince == nil && r.ClearsAfter() > 0:
		a.BetterSince = &now
		return change{id: id, after: &a}, true
	case a.BetterSince != nil && now.Sub(*a.BetterSince) < r.ClearsAfter():
		return change{}, false
	}
	return ended(now, id, a, "At its worst: "+cmp.Or(a.Peak, a.Message)), true
}

// ended returns the end of an alert. Nobody is notified if the alert has not fired.
func ended(now time.Time, id string, a adminapi.Alert, why string) change {
	if a.State != adminapi.AlertFiring {
		return change{id: id}
	}
	return change{id: id, event: &adminapi.AlertEvent{At: now, Type: adminapi.AlertCleared, Rule: a.Rule,
		Incident: a.Incident, Condition: a.Condition, Subject: a.Subject, Deliveries: waiting(a.Receivers, now),
		Message: fmt.Sprintf("Cleared after %s. %s", now.Sub(a.Since).Round(time.Second), why)}}
}

// waiting returns deliveries to receivers that have not been tried.
func waiting(receivers []string, now time.Time) (all []adminapi.AlertDelivery) {
	for _, r := range receivers {
		all = append(all, adminapi.AlertDelivery{Receiver: r, State: adminapi.DeliveryWaiting, At: now})
	}
	return all
}
