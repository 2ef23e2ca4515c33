package finetuning

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	// maxResult bounds a result file, in bytes.
	maxResult = 512 << 20
	// resultTries is how often a result file is tried in all: about an hour. The model must not wait for it for ever.
	resultTries  = 60
	writeTimeout = 10 * time.Second
	// maxCallable bounds the checkpoints of a job that become models.
	maxCallable = 100
)

// end puts the end of a job, which its outcome says, into a transaction that writes the job too.
func (s *Service) end(t *store.Txn, r *store.Record[Job]) {
	j, now := &r.Value, s.Now()
	j.Status, j.FinishedAt, j.Ask, j.Outage = j.Outcome.Status, now.Unix(), "", 0
	switch {
	case j.Status == job.TuningSucceeded:
		j.FineTunedModel = j.name(r.Tenant, r.ID)
		s.note(t, r, "info", saidModel+j.FineTunedModel)
		s.note(t, r, "info", saidSucceeded)
	case j.Status == job.TuningCancelled:
		s.note(t, r, "info", saidCancelled)
	case j.Outcome.Told:
		s.note(t, r, "error", strings.TrimSuffix(saidFailed, ": "))
	default:
		s.note(t, r, "error", saidFailed+j.Outcome.Error.Message)
	}
	t.Do(queue.Remove(queueKind, r.ID))
	for _, file := range j.files() {
		t.Free(file, r.ID)
	}
	s.Announce(t, r.Tenant, "fine_tuning.job."+string(j.Status), r.ID, now)
}

// finish keeps the results of a job, one after the other. Each may have been kept before.
func (w *worker) finish(ctx context.Context) error {
	for i, theirs := range w.job.Value.Outcome.ResultFiles {
		if _, done := w.job.Value.Results[theirs]; done {
			continue
		}
		if err := w.fetch(ctx, i, theirs); err != nil {
			return err
		}
	}
	if err := w.publish(ctx); err != nil {
		return err
	}
	if w.job.Value.Status.Over() {
		return nil
	}
	w.appear(ctx)
	return w.update(ctx, w.end)
}

// lookEvery is how often it is looked whether the gateway knows a model.
const lookEvery = 20 * time.Millisecond

// appear waits until the gateway knows the model that was made, so that whoever learns its name can call it at once.
// It gives up after a while: the key may be gone, and the gateway away.
func (w *worker) appear(ctx context.Context) {
	j := &w.job.Value
	if j.Outcome.Status != job.TuningSucceeded {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, w.Appear)
	defer cancel()
	_ = timing.Until(ctx, lookEvery, func() bool {
		ok, err := w.Gateway.MayUse(ctx, j.Key, j.name(w.job.Tenant, w.job.ID))
		return ok && err == nil
	})
}

// fetch copies a result file of the provider's.
func (w *worker) fetch(ctx context.Context, i int, theirs string) error {
	skip := func(ctx context.Context, _ *openai.Error) error {
		return w.update(ctx, func(t *store.Txn, r *store.Record[Job]) {
			r.Value.Results = with(r.Value.Results, theirs, "")
			w.note(t, r, "warn", "A result file could not be read from the provider. The job goes on without it.")
		})
	}
	tuner, client, err := w.trainer()
	if err != nil {
		return &setback{err: err, refused: skip, limit: resultTries}
	}
	opener, ok := tuner.(provider.ResultOpener)
	if !ok {
		return skip(ctx, nil)
	}
	made := &store.Record[files.File]{Tenant: w.job.Tenant, ID: files.Kind.NewID()}
	made.Value = files.File{Key: w.job.Value.Key, Filename: "step_metrics.csv", Purpose: files.PurposeFineTuneResults,
		CreatedAt: w.Now().Unix()}
	if i > 0 {
		made.Value.Filename = fmt.Sprintf("step_metrics_%d.csv", i+1)
	}
	ours := error(nil) // what went wrong on our side
	err = w.call(ctx, uploadTimeout, func(ctx context.Context) error {
		from, err := opener.OpenResult(ctx, client, theirs)
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }() // it was read as far as it is wanted
		var theirs error
		made.Value.Bytes, theirs, ours = w.store(ctx, made.ID, from)
		return theirs
	}, skip)
	if ours != nil {
		return ours
	}
	if failed, ok := errors.AsType[*setback](err); ok {
		failed.patience, failed.limit = maxRefusals, resultTries
	}
	if err != nil {
		return err
	}
	return w.update(ctx, func(t *store.Txn, r *store.Record[Job]) {
		files.Add(t, made)
		r.Value.Results = with(r.Value.Results, theirs, made.ID)
	})
}

// with returns a copy of a map with one entry more.
func with(m map[string]string, key, value string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// store writes a file's blob. It returns errors of reading and of writing apart.
func (w *worker) store(ctx context.Context, id string, from io.Reader) (n int64, reading, writing error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to, err := w.Bucket.NewWriter(ctx, files.BlobOf(id), nil)
	if err != nil {
		return 0, nil, fmt.Errorf("keep a result file: %w", err)
	}
	source := &errorKeeper{from: io.LimitReader(from, maxResult+1)}
	n, err = io.Copy(to, source)
	if source.err == nil && n > maxResult {
		source.err = fmt.Errorf("the result file is larger than %d bytes", maxResult)
	}
	if err != nil || source.err != nil {
		cancel() // gives the blob up
		_ = to.Close()
		if source.err != nil {
			return 0, source.err, nil
		}
		return 0, nil, fmt.Errorf("keep a result file: %w", err)
	}
	if err := to.Close(); err != nil {
		return 0, nil, fmt.Errorf("keep a result file: %w", err)
	}
	return n, nil, nil
}

// An errorKeeper remembers why reading failed.
type errorKeeper struct {
	from io.Reader
	err  error
}

func (k *errorKeeper) Read(p []byte) (int, error) {
	n, err := k.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		k.err = err
	}
	return n, err
}

func checkpointName(of string, step int64) string { return fmt.Sprintf("%s:ckpt-step-%d", of, step) }

// modelOf returns a fine-tuned model of a job as it is configured.
func modelOf(of *store.Record[Job], name, upstream string, now time.Time) *configv1.Model {
	return &configv1.Model{
		Name: name, Targets: []*configv1.Target{{Provider: of.Value.Provider, Model: upstream}},
		OwnedBy:   of.Tenant.Organization,
		CreatedAt: timestamppb.New(now.Truncate(time.Second)), Organization: of.Tenant.Organization,
		Project:   of.Tenant.Project,
		FineTuned: &configv1.FineTuned{Job: of.ID, BaseModel: of.Value.Base},
	}
}

// publish makes what the job has made a model that can be called, and its checkpoints too where the provider serves
// them.
func (w *worker) publish(ctx context.Context) error {
	o, name := w.job.Value.Outcome, w.job.Value.name(w.job.Tenant, w.job.ID)
	if o.Status == job.TuningSucceeded {
		err := w.put(ctx, modelOf(w.job, name, o.Model, w.Now()))
		if invalid, ok := errors.AsType[configv1.Errors](err); ok {
			return w.fail(ctx, openai.CodeInvalidModel, "", fmt.Sprintf("The model that was made cannot be configured: %v",
				invalid))
		}
		if err != nil {
			return err
		}
	}
	var callable []*configv1.Model
	err := each(ctx, w.Store, checkpointKind.Under(w.job.ID), w.job.Tenant, func(c *store.Record[Checkpoint]) {
		if c.Value.Model != "" && len(callable) < maxCallable {
			callable = append(callable, modelOf(w.job, checkpointName(name, c.Value.Step), c.Value.Model, w.Now()))
		}
	})
	if err != nil {
		return err
	}
	for _, m := range callable {
		err := w.put(ctx, m)
		if _, ok := errors.AsType[configv1.Errors](err); !ok && err != nil {
			return err
		}
	}
	return nil
}

// put writes a model, unless an earlier worker has.
func (w *worker) put(ctx context.Context, m *configv1.Model) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := w.Objects.Put(ctx, m, 0, w.claim.Held())
	if !errors.Is(err, configstore.ErrConflict) {
		return err
	}
	there, err := w.Objects.Get(ctx, configv1.KindOf(m), m.GetName())
	if err != nil {
		return err
	}
	if other, ok := there.Object.(*configv1.Model); !ok || other.GetFineTuned().GetJob() != m.GetFineTuned().GetJob() {
		return fmt.Errorf("the name %s is taken by another model", m.GetName())
	}
	return nil
}
