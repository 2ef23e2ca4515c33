package finetuning

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/archive"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Kind are fine-tuning jobs.
var Kind = store.Kind[Job]{
	Name: "finetuning", Prefix: "ftjob-", Once: once, Ended: endedAt, Parts: []store.Parts{eventKind, checkpointKind},
	Counts: counts,
}

// endedAt returns when a job came to its end, or 0.
func endedAt(j *Job) int64 {
	if !j.Status.Over() {
		return 0
	}
	return cmp.Or(j.FinishedAt, j.CreatedAt)
}

// once are the members that can be large and do not change.
func once(j *Job) map[string]any {
	return map[string]any{"metadata": &j.Metadata, "integrations": &j.Integrations, "grader": &j.Method.Grader}
}

const (
	recordSize = 2 << 10  // about what a job takes in etcd besides what its tenant has a say in
	eventSize  = 512      // about what an event or a checkpoint takes
	logStep    = 32 << 10 // a log is counted in so many bytes, so that not each event is
)

// counts returns what a job counts for.
func counts(j *Job) (key string, a store.Amounts) {
	a[store.KeptFineTuningJobs] = 1
	if !j.Status.Over() {
		a[store.OpenFineTuningJobs] = 1
	}
	size := int64(recordSize + len(j.Integrations) + len(j.Method.Grader))
	for name, value := range j.Metadata {
		size += int64(len(name) + len(value))
	}
	size += int64(j.Log.Events+j.Log.Checkpoints) * eventSize / logStep * logStep
	a[store.RecordBytes] = size
	return j.Key, a
}

// Events and checkpoints are kept under the id of their job.
var (
	eventKind      = store.Kind[Event]{Name: "ftevents", Prefix: "ftevent-"}
	checkpointKind = store.Kind[Checkpoint]{Name: "ftcheckpoints", Prefix: "ftckpt_"}
)

// What a client may ask of a job that exists.
const (
	askCancel = "cancel"
	askPause  = "pause"
	askResume = "resume"
)

// A Job is the record of a fine-tuning job. Times are Unix time in seconds. Its slices and maps are never changed in
// place.
type Job struct {
	// What the client asked for.
	Model        string            `json:"model"`
	Training     File              `json:"training"`
	Validation   *File             `json:"validation,omitempty"`
	Suffix       string            `json:"suffix,omitempty"`
	Seed         int64             `json:"seed"`
	SeedGiven    bool              `json:"seed_given,omitempty"` // else we chose it
	Method       Method            `json:"method"`
	Integrations json.RawMessage   `json:"integrations,omitempty"`
	Metadata     map[string]string `json:"metadata"`
	CreatedAt    int64             `json:"created_at"`

	// Who asked for it, and who does it.
	Key      string `json:"key"` // name of the Key object
	Provider string `json:"provider"`
	Upstream string `json:"upstream"` // the provider's name of the base model
	Base     string `json:"base"`     // the model that all tuning began with, by its public name
	Remote   Remote `json:"remote"`

	// How it stands.
	Status          job.TuningStatus `json:"status"`
	Ask             string           `json:"ask,omitempty"`        // what is yet to be asked of the provider
	Cancelling      bool             `json:"cancelling,omitempty"` // the client has asked to cancel
	TrainedTokens   *int64           `json:"trained_tokens,omitempty"`
	EstimatedFinish *int64           `json:"estimated_finish,omitempty"`
	// since when the provider has not taken the job further; 0: it does
	Outage         int64             `json:"outage,omitempty"`
	Log            Log               `json:"log"`
	Outcome        *Outcome          `json:"outcome,omitempty"` // how it has ended at the provider
	Results        map[string]string `json:"results,omitempty"` // our files by the provider's ids; empty: given up
	FineTunedModel string            `json:"fine_tuned_model,omitempty"`
	FinishedAt     int64             `json:"finished_at,omitempty"`
}

// A Method is provider.Method.
type Method struct {
	Type            string                   `json:"type"`
	Hyperparameters provider.Hyperparameters `json:"hyperparameters,omitempty"`
	Grader          json.RawMessage          `json:"grader,omitempty"`
}

// A File is one of a job's files.
type File struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Remote is the provider's state of a job, with its own ids.
type Remote struct {
	Training   string `json:"training,omitempty"`
	Validation string `json:"validation,omitempty"`
	Creating   bool   `json:"creating,omitempty"` // from here on the job may be there although its id is not known
	Job        string `json:"job,omitempty"`
}

// A Log says how far the events and checkpoints of a job are kept.
type Log struct {
	Clock       int64 `json:"clock,omitempty"` // of the newest event's id, in milliseconds
	Events      int   `json:"events,omitempty"`
	Checkpoints int   `json:"checkpoints,omitempty"`
}

// An Outcome is how a job has ended at its provider.
type Outcome struct {
	Status      job.TuningStatus      `json:"status"`
	Model       string                `json:"model,omitempty"` // the provider's name
	ResultFiles []string              `json:"result_files,omitempty"`
	Error       *provider.TuningError `json:"error,omitempty"`
	Told        bool                  `json:"told,omitempty"` // an event of the provider's says why it failed
}

// An Event is one line of a job's log.
type Event struct {
	CreatedAt int64           `json:"created_at"`
	Level     string          `json:"level"`
	Message   string          `json:"message"`
	Type      string          `json:"type"`
	Data      json.RawMessage `json:"data,omitempty"`
}

// A Checkpoint is a model as it was in the middle of its training.
type Checkpoint struct {
	CreatedAt int64           `json:"created_at"`
	Model     string          `json:"model,omitempty"` // the provider's name; empty: it cannot be called
	Step      int64           `json:"step"`
	Metrics   json.RawMessage `json:"metrics,omitempty"`
}

// name returns the public name of the model that a job makes.
func (j *Job) name(t store.Tenant, id string) string {
	owner := t.Organization
	if owner == "" {
		owner = "default"
	}
	// The end of an id is its random part.
	return "ft:" + j.Base + ":" + owner + ":" + j.Suffix + ":" + strings.ToLower(id[len(id)-10:])
}

// files returns the ids of the files that the job reads.
func (j *Job) files() []string {
	ids := []string{j.Training.ID}
	if j.Validation != nil {
		ids = append(ids, j.Validation.ID)
	}
	return slices.Compact(ids)
}

// translator replaces the provider's ids by ours, which are the only ones that mean anything to the client. Model
// is the provider's name of the tuned model, or empty.
func (j *Job) translator(t store.Tenant, id, model string) *strings.Replacer {
	var pairs []string
	add := func(theirs, ours string) {
		if len(theirs) >= 8 { // what is shorter may stand in a text by chance
			pairs = append(pairs, theirs, ours)
		}
	}
	add(model, j.name(t, id))
	add(j.Remote.Job, id)
	add(j.Remote.Training, j.Training.ID)
	if j.Validation != nil {
		add(j.Remote.Validation, j.Validation.ID)
	}
	return strings.NewReplacer(pairs...)
}

// Events returns a page of the events of a job, newest first, and whether more follow.
func Events(ctx context.Context, s *store.Store, of *store.Record[Job], p store.Page) ([]*store.Record[Event], bool,
	error) {
	return store.ListParts(ctx, s, Kind, of, eventKind, p)
}

// Archived returns how jobs are archived, with their events and checkpoints.
func Archived() archive.Kind {
	return archive.Kind{Name: Kind.Name, Queue: queueKind, Quota: store.KeptFineTuningJobs, Objects: Kind}
}
