package finetuning

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"sync/atomic"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	// maxNameless is how often a provider may report a success without a model.
	maxNameless = 60
	// maxResults bounds the result files of a job.
	maxResults = 10
	// maxHyperparameters and maxValue bound what a provider reports of its choice.
	maxHyperparameters = 32
	maxValue           = 64
)

// failJob returns what is done where the provider refuses: the job fails with the provider's reason.
func (w *worker) failJob(code openai.Code, param string) func(context.Context, *openai.Error) error {
	return func(ctx context.Context, e *openai.Error) error {
		return w.fail(ctx, cmp.Or(code, e.Code, openai.CodeInvalidRequest), cmp.Or(param, e.Param), e.Message)
	}
}

// upload gives the provider a file. If the worker is killed before the id is written down, the file is given again.
func (w *worker) upload(ctx context.Context, tuner provider.FineTuner, client *provider.Client, f File,
	param string, goneCode openai.Code, set func(*Remote, string)) error {
	if err := w.uploads.Acquire(ctx, 1); err != nil {
		return err
	}
	defer w.uploads.Release(1)
	var remote string
	var gone atomic.Bool
	open := func(ctx context.Context) (io.ReadCloser, error) {
		r, err := files.Open(ctx, w.Bucket, f.ID, 0)
		if errors.Is(err, files.ErrMissing) {
			gone.Store(true)
		}
		return r, err
	}
	err := w.call(ctx, uploadTimeout, func(ctx context.Context) (err error) {
		remote, err = tuner.Upload(ctx, client, provider.TrainingFile{Name: f.Name, Size: f.Bytes, Open: open})
		return err
	}, w.failJob("", param))
	if gone.Load() {
		return w.fail(ctx, goneCode, param,
			fmt.Sprintf("The content of the file %s is missing. Upload it again, and create a new job.", f.ID))
	}
	if err != nil {
		return err
	}
	return w.update(ctx, func(_ *store.Txn, r *store.Record[Job]) { set(&r.Value.Remote, remote) })
}

// createThere creates the job at the provider: first it is written down that this may have happened.
func (w *worker) createThere(ctx context.Context, tuner provider.FineTuner, client *provider.Client) error {
	again := w.job.Value.Remote.Creating
	if !again {
		if err := w.update(ctx, func(_ *store.Txn, r *store.Record[Job]) { r.Value.Remote.Creating = true }); err != nil {
			return err
		}
	}
	j := &w.job.Value
	asked := provider.TuningJob{
		ID: w.job.ID, Again: again, Model: j.Upstream, TrainingFile: j.Remote.Training, ValidationFile: j.Remote.Validation,
		Suffix: j.Suffix, Seed: &j.Seed, Method: provider.Method(j.Method), Integrations: j.Integrations,
	}
	var remote string
	err := w.call(ctx, callTimeout, func(ctx context.Context) (err error) {
		remote, err = tuner.Create(ctx, client, asked)
		// the provider takes none, and it is not the client's
		if e := refusal(err); e != nil && e.Param == "seed" && !j.SeedGiven {
			asked.Seed = nil
			remote, err = tuner.Create(ctx, client, asked)
		}
		return err
	}, w.failJob("", ""))
	if err != nil {
		return err
	}
	return w.update(ctx, func(_ *store.Txn, r *store.Record[Job]) { r.Value.Remote.Job = remote })
}

// askThere asks the provider what the client has asked for. Whether it was done, polling says.
func (w *worker) askThere(ctx context.Context, tuner provider.FineTuner, client *provider.Client, what string) error {
	answered := func(ctx context.Context, e *openai.Error) error {
		ours := w.job.Value.translator(w.job.Tenant, w.job.ID, "")
		return w.update(ctx, func(t *store.Txn, r *store.Record[Job]) {
			if r.Value.Ask != what { // the client has thought better of it
				return
			}
			if r.Value.Ask = ""; e != nil {
				r.Value.Cancelling = false
				w.note(t, r, "warn", clip(fmt.Sprintf("The provider refused to %s the job: %s", what, ours.Replace(e.Message)),
					maxMessage))
			}
		})
	}
	pauser, pauses := tuner.(provider.Pauser)
	if what != askCancel && !pauses {
		return answered(ctx, &openai.Error{Message: "it cannot do so any more."})
	}
	err := w.call(ctx, callTimeout, func(ctx context.Context) error {
		switch what {
		case askPause:
			return pauser.Pause(ctx, client, w.job.Value.Remote.Job)
		case askResume:
			return pauser.Resume(ctx, client, w.job.Value.Remote.Job)
		}
		return tuner.Cancel(ctx, client, w.job.Value.Remote.Job)
	}, answered)
	if err != nil {
		return err
	}
	w.pause = w.Soon
	return answered(ctx, nil)
}

// poll mirrors how the job stands.
func (w *worker) poll(ctx context.Context, tuner provider.FineTuner, client *provider.Client) error {
	var report provider.TuningReport
	err := w.call(ctx, callTimeout, func(ctx context.Context) (err error) {
		report, err = tuner.Poll(ctx, client, w.job.Value.Remote.Job)
		return err
	}, func(ctx context.Context, e *openai.Error) error {
		if e.Status == http.StatusNotFound || e.Status == http.StatusGone {
			return w.fail(ctx, openai.CodeJobLost, "", fmt.Sprintf("The provider '%s' does not know the job any more.",
				w.job.Value.Provider))
		}
		return w.failJob("", "")(ctx, e)
	})
	if refused, ok := errors.AsType[*setback](err); ok {
		refused.patience = maxRefusals
	}
	if err != nil {
		return err
	}
	if err := w.keepLog(ctx, &report); err != nil {
		return err
	}
	next := *w.job
	if err := w.mirror(&next.Value, &report); err != nil {
		return w.fail(ctx, openai.CodeNoModel, "", err.Error())
	}
	if same(&w.job.Value, &next.Value) {
		return nil
	}
	return w.update(ctx, func(_ *store.Txn, r *store.Record[Job]) {
		if err := w.mirror(&r.Value, &report); err != nil {
			return // it was none before
		}
	})
}

func same(a, b *Job) bool {
	one, err1 := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(one, other)
}

// mirror writes into a job what a report says. A state that the job cannot come to is not believed.
func (w *worker) mirror(j *Job, report *provider.TuningReport) error {
	if report.TrainedTokens != nil {
		j.TrainedTokens = report.TrainedTokens
	}
	j.EstimatedFinish = report.EstimatedFinish
	j.Method.Hyperparameters = chosen(j.Method.Hyperparameters, report.Hyperparameters)
	next := job.TuningStatus(report.Status)
	switch {
	case !j.Status.Becomes(next):
	case next == job.TuningSucceeded && report.Model == "":
		if w.nameless++; w.nameless > maxNameless {
			return fmt.Errorf("the provider '%s' says that the job has succeeded, but names no model", j.Provider)
		}
	case next.Over():
		o := &Outcome{Status: next, Model: report.Model,
			ResultFiles: report.ResultFiles[:min(len(report.ResultFiles), maxResults)]}
		if next == job.TuningFailed {
			o.Error = w.reason(report)
			o.Told = w.seen[hashOfName(nameOfError(o.Error.Message))]
		}
		j.Outcome, j.Ask = o, ""
	default:
		j.Status = next
	}
	return nil
}

// reason returns why the provider says that the job failed.
func (w *worker) reason(report *provider.TuningReport) *provider.TuningError {
	e := provider.TuningError{}
	if report.Error != nil {
		e = *report.Error
	}
	ours := w.job.Value.translator(w.job.Tenant, w.job.ID, "")
	return &provider.TuningError{
		Code: cmp.Or(openai.Code(clip(string(e.Code), maxID)), openai.CodeTrainingFailed), Param: clip(e.Param, maxID),
		Message: cmp.Or(clip(ours.Replace(e.Message), maxMessage), "The provider does not say why the job failed."),
	}
}

// names are how hyperparameters are called.
var names = regexp.MustCompile(`^[a-z_]{1,40}$`)

// chosen returns hyperparameters as the client chose them, where the provider has not said what it took instead.
func chosen(asked, taken provider.Hyperparameters) provider.Hyperparameters {
	if len(taken) == 0 {
		return asked
	}
	all := maps.Clone(asked)
	if all == nil {
		all = provider.Hyperparameters{}
	}
	for name, value := range taken {
		plain := len(value) > 0 && len(value) <= maxValue && value[0] != '{' && value[0] != '[' && json.Valid(value)
		if plain && string(value) != "null" && names.MatchString(name) &&
			(len(all) < maxHyperparameters || all[name] != nil) {
			all[name] = value
		}
	}
	return all
}
