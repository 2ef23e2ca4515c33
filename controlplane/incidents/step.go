package incidents

import (
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

const (
	// settles is how long what comes and goes by itself is awaited before it is an incident.
	settles = 20 * time.Second
	// clears is how long an incident is not judged any more before it closes.
	clears = time.Minute
)

// A kept is an open incident, as it is in the database.
type kept struct {
	adminapi.Incident
	// Better is since when it is not judged any more; zero: it is judged.
	Better time.Time `json:"better,omitzero"`
	// Described is set if the last change before it was looked for.
	Described bool `json:"described,omitempty"`
	// Last is when the last bad event was that is known.
	Last    time.Time `json:"last,omitzero"`
	version int64     // of the row; 0: there is none yet
}

// A change is a step of one incident.
type change struct {
	after kept
	// transition is set if the state has changed, and not only what is told of it.
	transition *adminapi.IncidentTransition
}

// settled reports whether a kind of trouble is an incident after a time.
func settled(kind string, after time.Duration) bool {
	switch kind {
	case adminapi.AttentionDataPlane, adminapi.AttentionJobs, adminapi.AttentionObjectError:
		return after >= settles
	}
	return true
}

// step returns what changes at a time, by subject. Open are the open incidents by subject. Begun is since when each
// trouble is there, as far as was found out. If not all is known (sure), none ends. It modifies nothing.
func step(now time.Time, found []Trouble, begun map[string]time.Time, open map[string]kept, sure bool) []change {
	var changes []change
	seen := map[string]bool{}
	for _, t := range found {
		seen[t.Subject] = true
		k, was := open[t.Subject]
		if !was {
			changes = append(changes, opened(now, t, begun[t.Subject]))
			continue
		}
		if c, changed := goesOn(now, t, k); changed {
			changes = append(changes, c)
		}
	}
	for subject, k := range open {
		switch {
		case seen[subject] || !sure:
		case k.Better.IsZero():
			k.Better = now
			changes = append(changes, change{after: k})
		case now.Sub(k.Better) >= clears:
			changes = append(changes, closed(now, k))
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.after.Subject, b.after.Subject) })
	return changes
}

// opened returns the begin of an incident.
func opened(now time.Time, t Trouble, since time.Time) change {
	k := kept{Incident: adminapi.Incident{Kind: t.Kind, Subject: t.Subject, Object: t.Object, Severity: t.Severity,
		State: adminapi.IncidentOpen, Since: since, Why: t.Why(since, now), Path: t.Path,
		Hit: adminapi.IncidentHit{CostUSD: "0", Organizations: []string{}, Keys: []string{}, Models: []string{},
			Batches: []string{}}}}
	return changed(k, now)
}

// goesOn returns the step of an incident that is still judged.
func goesOn(now time.Time, t Trouble, k kept) (change, bool) {
	before := k
	k.Better, k.Why, k.Object, k.Path = time.Time{}, t.Why(k.Since, now), t.Object, t.Path
	if k.Kind == t.Kind && k.Severity == t.Severity {
		return change{after: k}, k.Why != before.Why || !before.Better.IsZero()
	}
	k.Kind, k.Severity = t.Kind, t.Severity
	return changed(k, now), true
}

// closed returns the end of an incident, which was over with its last bad event, or when it was not judged any more.
func closed(now time.Time, k kept) change {
	until := k.Better
	if !k.Last.Before(k.Since) && k.Last.Before(until) {
		until = k.Last
	}
	k.State, k.Until, k.Better = adminapi.IncidentClosed, &until, time.Time{}
	return changed(k, now)
}

// changed returns the change to a state.
func changed(k kept, now time.Time) change {
	return change{after: k, transition: &adminapi.IncidentTransition{At: now, State: k.State, Kind: k.Kind,
		Severity: k.Severity, Why: k.Why}}
}
