package tuning

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// A job is OpenAI's.
type job struct {
	ID              string                   `json:"id"`
	CreatedAt       int64                    `json:"created_at"`
	FinishedAt      int64                    `json:"finished_at"`
	EstimatedFinish *int64                   `json:"estimated_finish"`
	Status          string                   `json:"status"`
	TrainingFile    string                   `json:"training_file"`
	Model           string                   `json:"fine_tuned_model"`
	TrainedTokens   *int64                   `json:"trained_tokens"`
	ResultFiles     []string                 `json:"result_files"`
	Hyperparameters provider.Hyperparameters `json:"hyperparameters"`
	Method          struct {
		Supervised, DPO, Reinforcement struct {
			Hyperparameters provider.Hyperparameters `json:"hyperparameters"`
		}
	} `json:"method"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Param   string `json:"param"`
	} `json:"error"`
}

// statuses are OpenAI's, and what Azure's older versions have beside them.
var statuses = map[string]string{
	"validating_files": Validating, "queued": Queued, "running": Running, "pausing": Running, "paused": Paused,
	"resuming":  Running,
	"succeeded": Succeeded, "failed": Failed, "cancelled": Cancelled,
	"created": Queued, "notRunning": Queued, "pending": Queued, "canceled": Cancelled, "deleted": Cancelled,
}

func (j *job) report() (provider.TuningReport, error) {
	status, err := Status(statuses, j.Status)
	if err != nil {
		return provider.TuningReport{}, err
	}
	r := provider.TuningReport{Status: status, TrainedTokens: j.TrainedTokens, ResultFiles: j.ResultFiles}
	if j.EstimatedFinish != nil && *j.EstimatedFinish > 0 && !Over(status) {
		r.EstimatedFinish = j.EstimatedFinish
	}
	if status == Succeeded {
		r.Model = j.Model
	}
	r.Hyperparameters = j.Hyperparameters
	for _, m := range []provider.Hyperparameters{j.Method.Supervised.Hyperparameters, j.Method.DPO.Hyperparameters,
		j.Method.Reinforcement.Hyperparameters} {
		if len(m) > 0 {
			r.Hyperparameters = m
		}
	}
	for name, value := range r.Hyperparameters {
		if bytes.Equal(value, []byte("null")) {
			delete(r.Hyperparameters, name)
		}
	}
	if status == Failed {
		r.Error = &provider.TuningError{Message: "The provider does not say why the job failed."}
		if e := j.Error; e != nil && e.Code+e.Message != "" {
			r.Error = &provider.TuningError{Code: openai.Code(e.Code), Message: e.Message, Param: e.Param}
		}
	}
	return r, nil
}

// An event is OpenAI's.
type event struct {
	ID        string          `json:"id"`
	CreatedAt int64           `json:"created_at"`
	Level     string          `json:"level"`
	Message   string          `json:"message"`
	Type      string          `json:"type"`
	Data      json.RawMessage `json:"data"`
}

func (e event) report() provider.TuningEvent {
	return provider.TuningEvent{ID: e.ID, CreatedAt: e.CreatedAt, Level: cmp.Or(e.Level, "info"), Message: e.Message,
		Type: cmp.Or(e.Type, "message"), Data: object(e.Data)}
}

// A checkpoint is OpenAI's.
type checkpoint struct {
	ID        string          `json:"id"`
	CreatedAt int64           `json:"created_at"`
	Model     string          `json:"fine_tuned_model_checkpoint"`
	Step      int64           `json:"step_number"`
	Metrics   json.RawMessage `json:"metrics"`
}

func (k checkpoint) report() provider.TuningCheckpoint {
	return provider.TuningCheckpoint{ID: k.ID, CreatedAt: k.CreatedAt, Model: k.Model, Step: k.Step,
		Metrics: object(k.Metrics)}
}

// object returns a JSON object that says something, or nil.
func object(value json.RawMessage) json.RawMessage {
	if len(value) > 2 && value[0] == '{' {
		return value
	}
	return nil
}
