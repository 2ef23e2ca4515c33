package fireworks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/tuning"
)

// states are Fireworks's, but for the prefix JOB_STATE_.
var states = map[string]string{
	"CREATING": tuning.Validating, "VALIDATING": tuning.Validating, "CREATING_INPUT_DATASET": tuning.Validating,
	"UNSPECIFIED": tuning.Queued, "PENDING": tuning.Queued, "RE_QUEUEING": tuning.Queued, "IDLE": tuning.Queued,
	"RUNNING": tuning.Running, "WRITING_RESULTS": tuning.Running, "CANCELLING": tuning.Running, "PAUSED": tuning.Paused,
	"COMPLETED": tuning.Succeeded, "EARLY_STOPPED": tuning.Succeeded, "FAILED": tuning.Failed, "EXPIRED": tuning.Failed,
	"CANCELLED": tuning.Cancelled, "DELETING": tuning.Cancelled, "DELETING_CLEANING_UP": tuning.Cancelled,
}

// settings are the settings of a job that OpenAI has too.
type settings struct {
	OutputModel  string          `json:"outputModel"`
	Epochs       json.RawMessage `json:"epochs"`
	BatchSamples json.RawMessage `json:"batchSizeSamples"`
	LearningRate json.RawMessage `json:"learningRate"`
}

// A job is Fireworks's of either kind: a supervised one has its settings at the top.
type job struct {
	State         string  `json:"state"`
	Status        *status `json:"status"`
	CreateTime    string  `json:"createTime"`
	UpdateTime    string  `json:"updateTime"`
	CompletedTime string  `json:"completedTime"`
	settings
	TrainingConfig *settings `json:"trainingConfig"`
	Progress       *struct {
		Percent int64 `json:"percent"`
		Epoch   int64 `json:"epoch"`
	} `json:"jobProgress"`
}

// Poll implements provider.FineTuner.
func (trainer) Poll(ctx context.Context, c *provider.Client, id string) (provider.TuningReport, error) {
	place, err := place(id)
	if err != nil {
		return provider.TuningReport{}, err
	}
	var j job
	if err := call(ctx, c, http.MethodGet, place, nil, &j); err != nil {
		return provider.TuningReport{}, tuning.OfJob(err)
	}
	state := strings.TrimPrefix(cmp.Or(j.State, "UNSPECIFIED"), "JOB_STATE_")
	status, err := tuning.Status(states, state)
	if err != nil {
		return provider.TuningReport{}, err
	}
	s := &j.settings
	if j.TrainingConfig != nil {
		s = j.TrainingConfig
	}
	r := provider.TuningReport{Status: status, Hyperparameters: provider.Hyperparameters{},
		Events: j.events(state, status)}
	for name, value := range map[string]json.RawMessage{"n_epochs": s.Epochs, "batch_size": s.BatchSamples,
		"learning_rate": s.LearningRate} {
		if len(value) > 0 && string(value) != "null" {
			r.Hyperparameters[name] = value
		}
	}
	switch {
	case status == tuning.Failed:
		r.Error = j.failure(state)
	case status == tuning.Succeeded && s.OutputModel != "":
		r.Model = s.OutputModel
		r.Events = append(r.Events, tuning.Notice("deploy", j.at(),
			"Fireworks serves this model only on a deployment, which somebody has to create there. "+
				"Ask your operator to do so, and to add # and the deployment's name to the target of the Model in the gateway's configuration."))
	}
	return r, nil
}

// place returns a job's place in the account, which is the gateway's id of it.
func place(id string) (string, error) {
	kind, name, ok := strings.Cut(id, "/")
	if !ok || kind != supervisedJobs && kind != dpoJobs {
		return "", fmt.Errorf("%q is not a fine-tuning job of Fireworks", id)
	}
	return kind + "/" + url.PathEscape(name), nil
}

// at returns when a job last changed.
func (j *job) at() int64 {
	for _, s := range []string{j.CompletedTime, j.UpdateTime, j.CreateTime} {
		if t, err := time.Parse(time.RFC3339, s); err == nil && t.Unix() > 0 {
			return t.Unix()
		}
	}
	return 0
}

// events returns one for the state and one for the progress, for Fireworks keeps no log of a job: what happens between
// two polls is not reported.
func (j *job) events(state, status string) []provider.TuningEvent {
	e := provider.TuningEvent{ID: state, CreatedAt: j.at(), Level: "info", Type: "message",
		Message: "The job is in the state " + state + "."}
	if j.Status != nil && j.Status.Message != "" {
		e.Message += " " + j.Status.Message
	}
	if status == tuning.Failed {
		e.Level = "error"
	}
	all := []provider.TuningEvent{e}
	if p := j.Progress; p != nil && p.Percent > 0 && status == tuning.Running {
		all = append(all, provider.TuningEvent{ID: fmt.Sprintf("progress-%d-%d", p.Epoch, p.Percent), CreatedAt: j.at(),
			Level: "info", Type: "message",
			Message: fmt.Sprintf("%d%% of the training is done.", p.Percent),
			Data:    json.RawMessage(fmt.Sprintf(`{"percent":%d,"epoch":%d}`, p.Percent, p.Epoch))})
	}
	return all
}

func (j *job) failure(state string) *provider.TuningError {
	e := &provider.TuningError{Code: openai.CodeTrainingFailed, Message: "The provider does not say why the job failed."}
	if state == "EXPIRED" {
		e.Code, e.Message = openai.CodeTrainingExpired, "The job took too long at the provider."
	}
	if j.Status == nil {
		return e
	}
	if j.Status.Code == "INVALID_ARGUMENT" {
		e.Code, e.Param = openai.CodeInvalidTrainingFile, "training_file"
	}
	e.Message = cmp.Or(j.Status.Message, e.Message)
	return e
}

// Cancel implements provider.FineTuner. Of supervised jobs the reference does not have the operation, but the vendor's
// command line does.
func (t trainer) Cancel(ctx context.Context, c *provider.Client, id string) error {
	place, err := place(id)
	if err != nil {
		return err
	}
	err = call(ctx, c, http.MethodPost, place+":cancel", struct{}{}, nil)
	return tuning.Cancelling(ctx, c, id, err, t.Poll)
}
