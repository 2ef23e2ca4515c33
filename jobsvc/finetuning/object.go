package finetuning

import (
	"encoding/json"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A jobObject is a job as clients see it, in OpenAI's order.
type jobObject struct {
	Object          string            `json:"object"` // fine_tuning.job
	ID              string            `json:"id"`
	Model           string            `json:"model"`
	CreatedAt       int64             `json:"created_at"`
	FinishedAt      *int64            `json:"finished_at"`
	FineTunedModel  *string           `json:"fine_tuned_model"`
	OrganizationID  string            `json:"organization_id"`
	ResultFiles     []string          `json:"result_files"`
	Status          job.TuningStatus  `json:"status"`
	ValidationFile  *string           `json:"validation_file"`
	TrainingFile    string            `json:"training_file"`
	Hyperparameters hyperparameters   `json:"hyperparameters"`
	TrainedTokens   *int64            `json:"trained_tokens"`
	Error           *errorObject      `json:"error"`
	Suffix          *string           `json:"user_provided_suffix"`
	Seed            int64             `json:"seed"`
	EstimatedFinish *int64            `json:"estimated_finish"`
	Integrations    json.RawMessage   `json:"integrations"`
	Metadata        map[string]string `json:"metadata"`
	Method          map[string]any    `json:"method"`
}

type hyperparameters struct {
	BatchSize              json.RawMessage `json:"batch_size"`
	LearningRateMultiplier json.RawMessage `json:"learning_rate_multiplier"`
	NEpochs                json.RawMessage `json:"n_epochs"`
}

type errorObject struct {
	Code    openai.Code `json:"code"`
	Message string      `json:"message"`
	Param   *string     `json:"param"`
}

type eventObject struct {
	Object    string          `json:"object"` // fine_tuning.job.event
	ID        string          `json:"id"`
	CreatedAt int64           `json:"created_at"`
	Level     string          `json:"level"`
	Message   string          `json:"message"`
	Type      string          `json:"type"`
	Data      json.RawMessage `json:"data"`
}

type checkpointObject struct {
	Object    string          `json:"object"` // fine_tuning.job.checkpoint
	ID        string          `json:"id"`
	CreatedAt int64           `json:"created_at"`
	Model     string          `json:"fine_tuned_model_checkpoint"`
	Job       string          `json:"fine_tuning_job_id"`
	Metrics   json.RawMessage `json:"metrics"`
	Step      int64           `json:"step_number"`
}

func show(r *store.Record[Job]) jobObject {
	j := &r.Value
	o := jobObject{
		Object: "fine_tuning.job", ID: r.ID, Model: j.Model, CreatedAt: j.CreatedAt, FinishedAt: optional(j.FinishedAt),
		FineTunedModel: optional(j.FineTunedModel), OrganizationID: r.Tenant.Organization, ResultFiles: []string{},
		Status: j.Status, TrainingFile: j.Training.ID, Hyperparameters: shownHyperparameters(j.Method.Hyperparameters),
		TrainedTokens: j.TrainedTokens, Suffix: optional(j.Suffix), Seed: j.Seed, EstimatedFinish: j.EstimatedFinish,
		Integrations: j.Integrations, Metadata: j.Metadata, Method: shownMethod(j.Method),
	}
	if o.OrganizationID == "" {
		o.OrganizationID = "default"
	}
	if j.Validation != nil {
		o.ValidationFile = &j.Validation.ID
	}
	if o.Integrations == nil {
		o.Integrations = json.RawMessage("[]")
	}
	if j.Status.Over() {
		o.EstimatedFinish = nil
		for _, theirs := range j.Outcome.ResultFiles {
			if ours := j.Results[theirs]; ours != "" {
				o.ResultFiles = append(o.ResultFiles, ours)
			}
		}
		if e := j.Outcome.Error; e != nil {
			o.Error = &errorObject{e.Code, e.Message, optional(e.Param)}
		}
	}
	return o
}

// optional returns a pointer, or nil for the zero value.
func optional[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}

func shownHyperparameters(h provider.Hyperparameters) hyperparameters {
	of := func(name string) json.RawMessage {
		if v := h[name]; v != nil {
			return v
		}
		return json.RawMessage(`"auto"`)
	}
	return hyperparameters{of("batch_size"), of("learning_rate_multiplier"), of("n_epochs")}
}

func shownMethod(m Method) map[string]any {
	settings := map[string]any{"hyperparameters": m.Hyperparameters}
	if m.Hyperparameters == nil {
		settings["hyperparameters"] = struct{}{}
	}
	if m.Grader != nil {
		settings["grader"] = m.Grader
	}
	return map[string]any{"type": m.Type, m.Type: settings}
}

// orEmpty returns an empty object for none.
func orEmpty(v json.RawMessage) json.RawMessage {
	if v == nil {
		return json.RawMessage("{}")
	}
	return v
}

func showEvent(r *store.Record[Event]) eventObject {
	e := &r.Value
	return eventObject{"fine_tuning.job.event", r.ID, e.CreatedAt, e.Level, e.Message, e.Type, orEmpty(e.Data)}
}

// showCheckpoint names the model of a checkpoint if it can be called.
func showCheckpoint(of *store.Record[Job]) func(r *store.Record[Checkpoint]) checkpointObject {
	name := of.Value.name(of.Tenant, of.ID)
	return func(r *store.Record[Checkpoint]) checkpointObject {
		c := &r.Value
		o := checkpointObject{Object: "fine_tuning.job.checkpoint", ID: r.ID, CreatedAt: c.CreatedAt, Job: of.ID,
			Metrics: orEmpty(c.Metrics), Step: c.Step}
		if c.Model != "" {
			o.Model = checkpointName(name, c.Step)
		}
		return o
	}
}

// Show returns a job as the clients' API shows it, for JSON.
func Show(r *store.Record[Job]) any { return show(r) }

// ShowEvent returns an event as the clients' API shows it, for JSON.
func ShowEvent(r *store.Record[Event]) any { return showEvent(r) }
