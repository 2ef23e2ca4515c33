package finetuning

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Bounds of a job's kept log. Metrics stop first: messages say how it ended.
const (
	maxMetrics     = 10_000
	maxEvents      = 11_000
	maxCheckpoints = 1_000
	maxMessage     = 2 << 10 // bytes
	maxData        = 4 << 10 // bytes
	// perTxn is how many go into one transaction: with every character escaped they are six times as long, and have to
	// fit beside the record.
	perTxn = 16
)

// The gateway's own messages. What a provider says in the same words is left out.
const (
	saidCreated   = "Created fine-tuning job: "
	saidTraining  = "Validating training file: "
	saidValid     = "Validating validation file: "
	saidModel     = "New fine-tuned model created: "
	saidSucceeded = "The job has successfully completed"
	saidCancelled = "The job was cancelled"
	saidFailed    = "The job failed: "
)

// own returns the first messages of a job.
func own(jobID string, j *Job) []string {
	messages := []string{saidCreated + jobID, saidTraining + j.Training.ID}
	if j.Validation != nil {
		messages = append(messages, saidValid+j.Validation.ID)
	}
	return messages
}

// note puts an event of our own into a transaction that writes the job too.
func (s *Service) note(t *store.Txn, r *store.Record[Job], level, message string) {
	addEvent(t, r, "own/"+message, Event{CreatedAt: s.Now().Unix(), Level: level, Message: message, Type: "message"})
}

// addEvent puts an event into a transaction that writes the job too. Lists have events in the order of their
// addition.
func addEvent(t *store.Txn, r *store.Record[Job], name string, e Event) {
	clock := &r.Value.Log.Clock
	*clock = max(*clock+1, e.CreatedAt*1000)
	r.Value.Log.Events++
	eventKind.Under(r.ID).Put(t, &store.Record[Event]{Tenant: r.Tenant, ID: eventKind.Prefix +
		id.Derived(time.UnixMilli(*clock), name), Value: e})
}

// hashOf returns the part of an id that depends on the name alone.
func hashOf(objectID string) string { return objectID[len(objectID)-16:] }

func hashOfName(name string) string { return hashOf(id.Derived(time.UnixMilli(0), name)) }

// A seen set holds the hashes of the events and checkpoints that are kept of a job.
type seen map[string]bool

// readSeen reads which are kept already.
func readSeen(ctx context.Context, st *store.Store, r *store.Record[Job]) (seen, error) {
	kept := seen{}
	if err := each(ctx, st, eventKind.Under(r.ID), r.Tenant,
		func(e *store.Record[Event]) { kept[hashOf(e.ID)] = true }); err != nil {
		return nil, err
	}
	return kept, each(ctx, st, checkpointKind.Under(r.ID), r.Tenant,
		func(c *store.Record[Checkpoint]) { kept[hashOf(c.ID)] = true })
}

// each calls f for all objects of a kind, newest first.
func each[T any](ctx context.Context, st *store.Store, kind store.Kind[T], t store.Tenant,
	f func(*store.Record[T])) error {
	for page := (store.Page{Limit: 500}); ; {
		found, more, err := kind.List(ctx, st, t, page, nil)
		if err != nil {
			return err
		}
		for _, r := range found {
			f(r)
			page.After = r.ID
		}
		if !more {
			return nil
		}
	}
}

// keepLog keeps the events and checkpoints of a report that are new.
func (w *worker) keepLog(ctx context.Context, report *provider.TuningReport) error {
	if len(report.Events)+len(report.Checkpoints) == 0 {
		return nil
	}
	if w.seen == nil {
		kept, err := readSeen(ctx, w.Store, w.job)
		if err != nil {
			return err
		}
		w.seen = kept
	}
	for some := range slices.Chunk(w.newEvents(report), perTxn) {
		err := w.update(ctx, func(t *store.Txn, r *store.Record[Job]) {
			for _, e := range some {
				addEvent(t, r, e.name, e.Event)
			}
		})
		if err != nil {
			return err
		}
		for _, e := range some {
			w.seen[hashOfName(e.name)] = true
		}
	}
	for some := range slices.Chunk(w.newCheckpoints(report), perTxn) {
		err := w.update(ctx, func(t *store.Txn, r *store.Record[Job]) {
			for _, c := range some {
				r.Value.Log.Checkpoints++
				checkpointKind.Under(r.ID).Put(t, c)
			}
		})
		if err != nil {
			return err
		}
		for _, c := range some {
			w.seen[hashOf(c.ID)] = true
		}
	}
	return nil
}

// A named event has the name by which it is known again.
type namedEvent struct {
	name string
	Event
}

// nameOfError is the name of a provider's event that may say why the job failed. Its message names it, because it
// may come before the state that it explains.
func nameOfError(message string) string { return "provider says/" + message }

// newEvents returns the events of a report that are not kept yet, oldest first.
func (w *worker) newEvents(report *provider.TuningReport) []namedEvent {
	said := slices.Concat(own(w.job.ID, &w.job.Value), []string{
		saidModel + w.job.Value.name(w.job.Tenant, w.job.ID), saidSucceeded, saidCancelled,
		strings.TrimSuffix(saidCreated, ": "), strings.TrimSuffix(saidTraining, ": "), strings.TrimSuffix(saidValid, ": "),
		strings.TrimSuffix(saidModel, ": "),
	})
	ours := w.job.Value.translator(w.job.Tenant, w.job.ID, report.Model)
	var fresh []namedEvent
	for _, e := range inOrder(report.Events) {
		name := "provider/" + e.ID
		at := Event{CreatedAt: w.stamp(e.CreatedAt), Level: "info", Message: clip(ours.Replace(e.Message), maxMessage),
			Type: "message"}
		if e.Level == "warn" || e.Level == "error" {
			at.Level = e.Level
		}
		if e.Level == "error" {
			name = nameOfError(at.Message)
		}
		most := maxEvents
		if e.Type == "metrics" {
			at.Type, most = e.Type, maxMetrics
		}
		if data := ours.Replace(string(e.Data)); len(data) <= maxData && isObject(data) {
			at.Data = json.RawMessage(data)
		}
		if !w.seen[hashOfName(name)] && !slices.Contains(said, at.Message) && w.job.Value.Log.Events+len(fresh) < most {
			fresh = append(fresh, namedEvent{name, at})
		}
	}
	return fresh
}

// inOrder returns events oldest first. Those of one second stay as the provider has them, which may be newest first.
func inOrder(events []provider.TuningEvent) []provider.TuningEvent {
	events = slices.Clone(events)
	if n := len(events); n > 0 && events[0].CreatedAt > events[n-1].CreatedAt {
		slices.Reverse(events)
	}
	slices.SortStableFunc(events, func(a, b provider.TuningEvent) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	return events
}

// newCheckpoints returns the checkpoints of a report that are not kept yet.
func (w *worker) newCheckpoints(report *provider.TuningReport) []*store.Record[Checkpoint] {
	var fresh []*store.Record[Checkpoint]
	for _, c := range report.Checkpoints {
		at := Checkpoint{CreatedAt: w.stamp(c.CreatedAt), Model: c.Model, Step: max(c.Step, 0)}
		if len(c.Metrics) <= maxData && isObject(string(c.Metrics)) {
			at.Metrics = c.Metrics
		}
		// Those of one second are in the order of their steps.
		when := time.Unix(at.CreatedAt, min(at.Step, 999)*int64(time.Millisecond))
		r := &store.Record[Checkpoint]{Tenant: w.job.Tenant, ID: checkpointKind.Prefix + id.Derived(when, c.ID), Value: at}
		if !w.seen[hashOf(r.ID)] && w.job.Value.Log.Checkpoints+len(fresh) < maxCheckpoints && len(c.Model) <= maxMessage {
			fresh = append(fresh, r)
		}
	}
	return fresh
}

// stamp returns a provider's time if it can be one.
func (w *worker) stamp(at int64) int64 {
	now := w.Now().Unix()
	if at <= 0 || at > now+int64(24*time.Hour/time.Second) {
		return now
	}
	return at
}

func isObject(text string) bool { return strings.HasPrefix(text, "{") && json.Valid([]byte(text)) }

// clip shortens a text to so many bytes.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
