package incidents

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	// longest is how far back the begin of an incident is looked for.
	longest = 24 * time.Hour
	// quiet is the time without a bad event that parts one incident from the one before.
	quiet = 15 * time.Minute
	// microMinute is a minute in microseconds.
	microMinute = int64(time.Minute / time.Microsecond)
	// mostHit is how many names of those who are hit are listed.
	mostHit = 20
	// ownChange and otherChange are how long before an incident a change may be its cause: one of what left its normal
	// state, and one of anything.
	ownChange, otherChange = 7 * 24 * time.Hour, time.Hour
)

// A Log is the ledger's knowledge of requests, attempts and changes.
type Log interface {
	// Walk calls do for each exchange that options select, in no order. It calls begin first, and again if it begins
	// anew.
	Walk(ctx context.Context, o adminapi.ListOptions, columns []segment.Column, begin func(),
		do func(*segment.Row)) error
	Minutes(ctx context.Context, provider string, since time.Time) ([]ledger.Minute, error)
	Audit(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.AuditEntry], error)
}

// A describer finds out what is told of an incident.
type describer struct {
	log      Log
	versions func(ctx context.Context, kind configv1.Kind, name string) ([]adminapi.Version, error)
	undoes   func(ctx context.Context, kind configv1.Kind, name string, revision int64) (bool, error)
	keyName  func(id string) string
	now      time.Time
	gap      time.Duration // between two judgements
}

// since returns when a trouble began that was seen first at a time: its first bad event, as far as the ledger has it,
// or now.
func (d *describer) since(ctx context.Context, t Trouble, seen time.Time) (time.Time, error) {
	switch t.Kind {
	case adminapi.AttentionCertificate: // which may have been given to the gateway when it was to expire soon
		at, err := d.lastChange(ctx, t.Object, t.Since)
		return later(t.Since, at), err
	case adminapi.AttentionBudget:
		if at, err := d.crossed(ctx, t); err != nil || !at.IsZero() {
			return at, err
		}
	case adminapi.AttentionObjectError, adminapi.AttentionDataPlane: // after a change, unless a file or a process is why
		at, err := d.lastChange(ctx, t.Object, seen.Add(-d.gap))
		return cmp.Or(at, seen), err
	}
	if !t.Since.IsZero() {
		return t.Since, nil
	}
	if provider, ok := strings.CutPrefix(t.Subject, "provider/"); ok {
		return d.firstFailure(ctx, provider)
	}
	if t.Requests == nil {
		return d.now, nil
	}
	minutes := map[int64][2]int64{} // the first and the last request of each
	err := d.walk(ctx, t, d.now.Add(-longest), []segment.Column{segment.StartedAt}, func() { clear(minutes) },
		func(r *segment.Row) {
			of := minutes[r.StartedAt/microMinute]
			if of[0] == 0 || r.StartedAt < of[0] {
				of[0] = r.StartedAt
			}
			minutes[r.StartedAt/microMinute] = [2]int64{of[0], max(of[1], r.StartedAt)}
		})
	first := d.now
	for _, m := range slices.Backward(slices.Sorted(maps.Keys(minutes))) {
		if first.Sub(time.UnixMicro(minutes[m][1])) > quiet {
			break
		}
		first = time.UnixMicro(minutes[m][0]).UTC()
	}
	return first, err
}

// walk calls do with some columns of each request of a trouble since a time.
func (d *describer) walk(ctx context.Context, t Trouble, since time.Time, columns []segment.Column, begin func(),
	do func(*segment.Row)) error {
	o := adminapi.ListOptions{Filters: span(t.Requests, since, d.now.Add(time.Second))}
	return d.log.Walk(ctx, o, append(columns, segment.RefusedBy, segment.ErrorCode, segment.Provider), begin,
		func(r *segment.Row) {
			if (t.By == nil || slices.Contains(t.By, r.RefusedBy)) && !slices.Contains(t.Without, r.Provider) &&
				(t.Code == "" || t.Code == openai.Code(r.ErrorCode)) {
				do(r)
			}
		})
}

// lastChange returns when an object was changed last since a time, or with "" any object; zero: none was.
func (d *describer) lastChange(ctx context.Context, object string, since time.Time) (time.Time, error) {
	kind, name, _ := strings.Cut(object, " ")
	filters := span(map[string]string{"kind": kind, "name": name}, since, d.now.Add(time.Second))
	page, err := d.log.Audit(ctx, adminapi.ListOptions{Limit: 1, Filters: filters})
	if err != nil || len(page.Items) == 0 || page.Items[0].At.Before(since) {
		return time.Time{}, err
	}
	return page.Items[0].At, nil
}

// firstFailure returns when the first attempt failed of those that a provider fails with now.
func (d *describer) firstFailure(ctx context.Context, provider string) (time.Time, error) {
	minutes, err := d.log.Minutes(ctx, provider, d.now.Add(-longest))
	if err != nil {
		return d.now, err
	}
	minute, ok := begin(minutes)
	if !ok {
		return d.now, nil
	}
	// Attempts are counted when they begin, which is after their request did.
	at, err := d.firstIn(ctx, provider, minute, minute.Add(-time.Minute), minute.Add(time.Minute))
	if at.IsZero() {
		at = minute
	}
	return at, err
}

// begin returns the first of the last minutes in which most attempts failed, without a long pause between them.
func begin(minutes []ledger.Minute) (first time.Time, ok bool) {
	var last time.Time
	for _, m := range slices.Backward(minutes) {
		switch {
		case ok && last.Sub(m.Start) > quiet, 2*m.Failed < m.Attempts && ok:
			return first, true
		case m.Failed > 0:
			first, ok = m.Start, true
		}
		last = m.Start
	}
	return first, ok
}

// firstIn returns when the first attempt at a provider failed, not before a time, of the requests between two others;
// zero: none is found.
func (d *describer) firstIn(ctx context.Context, provider string, least, from, to time.Time) (time.Time, error) {
	var first time.Time
	err := d.log.Walk(ctx, adminapi.ListOptions{Filters: span(nil, from, to)},
		[]segment.Column{segment.StartedAt, segment.AttemptList}, func() { first = time.Time{} }, func(r *segment.Row) {
			for i := range r.AttemptList {
				a := &r.AttemptList[i]
				at := time.UnixMicro(r.StartedAt).UTC().Add(time.Duration(a.StartMS) * time.Millisecond)
				if a.Provider == provider && a.Error != "" && !at.Before(least) && (first.IsZero() || at.Before(first)) {
					first = at
				}
			}
		})
	return first, err
}

// span returns filters of the request log with a time.
func span(filters map[string]string, from, to time.Time) map[string]string {
	all := map[string]string{"start": strconv.FormatInt(from.Unix(), 10), "end": strconv.FormatInt(to.Unix(), 10)}
	maps.Copy(all, filters)
	return all
}

// hit returns who was hit since a time, and when the last was.
func (d *describer) hit(ctx context.Context, t Trouble, since time.Time) (h adminapi.IncidentHit, last time.Time,
	err error) {
	var counts [4]map[string]int64
	var cost usage.Nano
	begin := func() {
		h.Requests, cost, last = 0, 0, time.Time{}
		counts = [4]map[string]int64{{}, {}, {}, {}}
	}
	begin()
	if t.Requests != nil {
		err = d.walk(ctx, t, since, []segment.Column{segment.ID, segment.StartedAt, segment.Requests, segment.Cost,
			segment.Batch, segment.Organization, segment.Key, segment.Model}, begin,
			func(r *segment.Row) {
				h.Requests += max(r.Requests, 1)
				cost = cost.Plus(usage.Nano(r.Cost))
				if at := time.UnixMicro(r.StartedAt).UTC(); at.After(last) {
					last = at
				}
				batch := ""
				if r.Batch {
					batch, _, _ = strings.Cut(r.ID, "/")
				}
				for i, name := range [...]string{r.Organization, r.Key, r.Model, batch} {
					if name != "" {
						counts[i][name]++
					}
				}
			})
	}
	h.CostUSD = cost.String()
	h.Organizations, h.Keys = ranked(counts[0]), ranked(counts[1])
	h.Models, h.Batches = ranked(counts[2]), ranked(counts[3])
	for i, key := range h.Keys {
		h.Keys[i] = cmp.Or(d.keyName(key), key)
	}
	return h, last, err
}

// ranked returns the names that were counted most.
func ranked(counts map[string]int64) []string {
	all := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	return append([]string{}, all[:min(len(all), mostHit)]...)
}

// change returns the last change before an incident, or nil.
func (d *describer) change(ctx context.Context, t Trouble, since time.Time) (*adminapi.IncidentChange, error) {
	until := since.Add(time.Second) // a change and its first effect may have one second
	if name, of, ok := strings.Cut(t.Object, " "); ok {
		if kind, known := configv1.FindKind(name); known {
			found, err := d.changeOf(ctx, kind, of, until.Add(-ownChange), until)
			if err != nil || found != nil {
				return found, err
			}
		}
	}
	page, err := d.log.Audit(ctx, adminapi.ListOptions{Limit: 50, Filters: span(nil, until.Add(-otherChange), until)})
	if err != nil {
		return nil, err
	}
	for _, e := range page.Items {
		kind, known := configv1.FindKind(e.Kind)
		if !known {
			continue
		}
		found, err := d.changeOf(ctx, kind, e.Name, until.Add(-otherChange), until)
		if err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}

// changeOf returns the last change of an object between two times, or nil.
func (d *describer) changeOf(ctx context.Context, kind configv1.Kind, name string,
	from, until time.Time) (*adminapi.IncidentChange, error) {
	versions, err := d.versions(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(versions, func(v adminapi.Version) bool { return !v.At.After(until) })
	if i < 0 || versions[i].At.Before(from) || versions[i].Actor == "" {
		return nil, nil
	}
	v := versions[i]
	c := &adminapi.IncidentChange{At: v.At, Actor: v.Actor, Action: v.Action, Kind: v.Kind, Name: v.Name}
	for _, before := range versions[i+1:] {
		if before.Revision >= v.Revision {
			continue
		}
		if undoes, err := d.undoes(ctx, kind, v.Name, before.Revision); err != nil || !undoes {
			c.Stays = true
			return c, err
		}
		c.Revision = before.Revision
		c.Undo = rollbackPath(kind, v.Name, before.Revision)
		c.Command = "modelgate config rollback --revision " + strconv.FormatInt(before.Revision, 10) + " " +
			strings.ToLower(v.Kind) + " " + v.Name
		break
	}
	return c, nil
}

// remedy says what the gateway does about a trouble.
func remedy(t Trouble, f attention.Facts, models []*configv1.Model, ill map[string]bool) string {
	switch t.Kind {
	case adminapi.AttentionCheckerAway:
		return "It refuses requests that the rule is for."
	case adminapi.AttentionLimit, adminapi.AttentionKeyRefused:
		return "It refuses them before a provider is asked."
	case adminapi.AttentionBatchStuck:
		return "It tries the requests again until the batch expires."
	case adminapi.AttentionObjectError:
		return "It goes on with the last version that was valid."
	case adminapi.AttentionDataPlane:
		return "The process goes on with the last configuration that it has accepted."
	case adminapi.AttentionSpool, adminapi.AttentionAuditSink:
		return "It keeps what is not delivered, and tries again."
	}
	provider, ok := strings.CutPrefix(t.Subject, "provider/")
	if !ok {
		return ""
	}
	var said []string
	for _, p := range f.Providers {
		if p.Provider == provider && p.CoolingUntil != nil {
			said = append(said, "It tries "+provider+" last until "+p.CoolingUntil.UTC().Format(time.TimeOnly)+" UTC.")
		}
	}
	instead, stuck := map[string][]string{}, []string{}
	for _, m := range models {
		uses, others := false, []string{}
		for _, target := range m.GetTargets() {
			if target.GetProvider() == provider {
				uses = true
			} else if !ill[target.GetProvider()] && !slices.Contains(others, target.GetProvider()) {
				others = append(others, target.GetProvider())
			}
		}
		switch to := strings.Join(others, ", "); {
		case !uses:
		case to == "":
			stuck = append(stuck, m.GetName())
		default:
			instead[to] = append(instead[to], m.GetName())
		}
	}
	for _, to := range slices.Sorted(maps.Keys(instead)) {
		said = append(said, "It falls back to "+to+" for "+listed(instead[to])+".")
	}
	if len(stuck) > 0 {
		said = append(said, "No other provider serves "+listed(stuck)+".")
	}
	return strings.Join(said, " ")
}

// requestsPath returns the page that lists the requests that were hit since a time; empty: none were.
func requestsPath(t Trouble, since time.Time) string {
	if t.Requests == nil {
		return ""
	}
	values := url.Values{"range": {"custom"}, "from": {since.UTC().Format("2006-01-02T15:04")}}
	for name, value := range t.Requests {
		values.Set(name, value)
	}
	return "/requests?" + values.Encode()
}

// rollbackPath returns the page that asks for a rollback of an object.
func rollbackPath(kind configv1.Kind, name string, revision int64) string {
	return "/rollback" + strings.TrimPrefix(attention.PathOf(kind.Name, name), "/objects") + "?revision=" +
		strconv.FormatInt(revision, 10)
}
