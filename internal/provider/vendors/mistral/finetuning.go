package mistral

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/tuning"
)

// trainer trains models by Mistral's API, https://docs.mistral.ai/api/endpoint/fine-tuning, by the types of
// mistralai/client-python at 05629d23. The vendor calls that API deprecated, but serves it. It implements
// provider.FineTuner and ModelDeleter.
type trainer struct{}

// statuses are Mistral's. A job that is validated starts by itself, for it was created so.
var statuses = map[string]string{
	"QUEUED": tuning.Queued, "STARTED": tuning.Queued, "VALIDATING": tuning.Validating, "VALIDATED": tuning.Queued,
	"RUNNING":           tuning.Running,
	"FAILED_VALIDATION": tuning.Failed, "FAILED": tuning.Failed, "SUCCESS": tuning.Succeeded,
	"CANCELLED": tuning.Cancelled, "CANCELLATION_REQUESTED": tuning.Running,
}

// A tuningJob is Mistral's.
type tuningJob struct {
	ID              string          `json:"id"`
	Status          string          `json:"status"`
	AutoStart       bool            `json:"auto_start"`
	ModifiedAt      int64           `json:"modified_at"`
	TrainingFiles   []string        `json:"training_files"`
	FineTunedModel  string          `json:"fine_tuned_model"`
	TrainedTokens   *int64          `json:"trained_tokens"`
	Events          []tuningEvent   `json:"events"`
	Hyperparameters json.RawMessage `json:"hyperparameters"`
	Checkpoints     []struct {
		Metrics   json.RawMessage `json:"metrics"`
		Step      int64           `json:"step_number"`
		CreatedAt int64           `json:"created_at"`
	} `json:"checkpoints"`
}

// A tuningEvent is Mistral's: what data holds depends on the name.
type tuningEvent struct {
	Name      string          `json:"name"`
	CreatedAt int64           `json:"created_at"`
	Data      json.RawMessage `json:"data"`
}

// Upload implements provider.FineTuner.
func (trainer) Upload(ctx context.Context, c *provider.Client, f provider.TrainingFile) (string, error) {
	var file struct {
		ID string `json:"id"`
	}
	if err := tuning.Upload(ctx, c, "/files", f, &file, tuning.Field{Name: "purpose", Value: "fine-tune"}); err != nil {
		return "", err
	}
	return tuning.Named(file.ID)
}

// Create implements provider.FineTuner.
func (t trainer) Create(ctx context.Context, c *provider.Client, j provider.TuningJob) (string, error) {
	if j.Again {
		found, err := find(ctx, c, j.TrainingFile)
		if err != nil {
			return "", err
		}
		if found != "" {
			return found, nil
		}
	}
	request, err := encodeJob(c, j)
	if err != nil {
		return "", err
	}
	var made tuningJob
	if err := c.JSON(ctx, http.MethodPost, "/fine_tuning/jobs", request, &made); err != nil {
		return "", err
	}
	return tuning.Named(made.ID)
}

// Bounds of a search among all jobs.
const (
	searchPages = 100
	searchSize  = 100
)

// find returns the job of a file that was uploaded for one job only, or "".
func find(ctx context.Context, c *provider.Client, file string) (string, error) {
	for page := range searchPages {
		query := url.Values{"page": {strconv.Itoa(page)}, "page_size": {strconv.Itoa(searchSize)}}
		var list struct {
			Data []tuningJob `json:"data"`
		}
		if err := c.JSON(ctx, http.MethodGet, "/fine_tuning/jobs?"+query.Encode(), nil, &list); err != nil {
			return "", err
		}
		if i := slices.IndexFunc(list.Data, func(j tuningJob) bool {
			return slices.Contains(j.TrainingFiles, file)
		}); i >= 0 {
			return tuning.Named(list.Data[i].ID)
		}
		if len(list.Data) < searchSize {
			return "", nil
		}
	}
	return "", fmt.Errorf("the provider has more than %d fine-tuning jobs, among which one could not be looked up",
		searchPages*searchSize)
}

// encodeJob returns the request for a job.
func encodeJob(c *provider.Client, j provider.TuningJob) (map[string]any, error) {
	switch {
	case tuning.Method(j.Method) != "supervised":
		return nil, tuning.Unsupported(c, "method.type")
	case j.Seed != nil:
		return nil, tuning.Unsupported(c, "seed")
	case len(j.Integrations) > 0: // Weights & Biases needs an API key in each job. OpenAI has no place for it.
		return nil, tuning.Unsupported(c, "integrations")
	}
	// A learning rate is absolute here, so OpenAI's multiplier has no place.
	settings, err := tuning.Hyperparameters(c, j.Method,
		map[string]string{"n_epochs": "epochs", "learning_rate": "learning_rate", "training_steps": "training_steps"})
	if err != nil {
		return nil, err
	}
	r := map[string]any{
		"model": j.Model, "job_type": "completion", "auto_start": true, "hyperparameters": settings,
		"training_files": []any{map[string]any{"file_id": j.TrainingFile, "weight": 1}},
	}
	if j.ValidationFile != "" {
		r["validation_files"] = []string{j.ValidationFile}
	}
	tuning.SetText(r, "suffix", j.Suffix)
	return r, nil
}

// Poll implements provider.FineTuner.
func (trainer) Poll(ctx context.Context, c *provider.Client, id string) (provider.TuningReport, error) {
	var j tuningJob
	if err := c.JSON(ctx, http.MethodGet, "/fine_tuning/jobs/"+url.PathEscape(id), nil, &j); err != nil {
		return provider.TuningReport{}, tuning.OfJob(err)
	}
	status, err := tuning.Status(statuses, j.Status)
	if err != nil {
		return provider.TuningReport{}, err
	}
	r := provider.TuningReport{Status: status, TrainedTokens: j.TrainedTokens,
		Hyperparameters: hyperparameters(j.Hyperparameters)}
	if status == tuning.Succeeded {
		r.Model = j.FineTunedModel
	}
	for _, e := range j.Events {
		r.Events = append(r.Events, e.report())
	}
	for _, k := range j.Checkpoints {
		r.Checkpoints = append(r.Checkpoints, provider.TuningCheckpoint{ID: "step-" + strconv.FormatInt(k.Step, 10),
			CreatedAt: k.CreatedAt, Step: k.Step, Metrics: k.Metrics})
	}
	if status == tuning.Failed {
		r.Error = failure(&j)
	}
	return r, nil
}

// hyperparameters reads what Mistral has chosen, its epochs by OpenAI's name.
func hyperparameters(text json.RawMessage) provider.Hyperparameters {
	var out provider.Hyperparameters
	if json.Unmarshal(text, &out) != nil { // what cannot be read is not said
		return nil
	}
	for name, value := range out {
		if len(value) == 0 || string(value) == "null" {
			delete(out, name)
		}
	}
	if epochs, ok := out["epochs"]; ok {
		out["n_epochs"] = epochs
		delete(out, "epochs")
	}
	return out
}

// said reads what the data of an event says.
func (e tuningEvent) said() (status, failure string) {
	var data struct {
		Status string `json:"status"`
		Error  string `json:"error"`
	}
	if json.Unmarshal(e.Data, &data) != nil { // it says other things
		return "", ""
	}
	return data.Status, data.Error
}

func (e tuningEvent) report() provider.TuningEvent {
	out := provider.TuningEvent{CreatedAt: e.CreatedAt, Level: "info", Type: "message", Message: e.Name}
	out.ID = tuning.EventID(e.Name, strconv.FormatInt(e.CreatedAt, 10), string(e.Data))
	status, failure := e.said()
	if status != "" {
		out.Message += ": " + status
	}
	if failure != "" {
		out.Level, out.Message = "error", out.Message+": "+failure
	}
	if len(e.Data) > 2 && e.Data[0] == '{' {
		out.Data = e.Data
	}
	return out
}

// failure returns why a job failed, which Mistral only says among its events.
func failure(j *tuningJob) *provider.TuningError {
	e := &provider.TuningError{Code: openai.CodeTrainingFailed}
	if j.Status == "FAILED_VALIDATION" {
		e.Code, e.Param = openai.CodeInvalidTrainingFile, "training_file"
	}
	last := int64(-1)
	for _, event := range j.Events {
		if _, why := event.said(); why != "" && event.CreatedAt > last {
			e.Message, last = why, event.CreatedAt
		}
	}
	e.Message = cmp.Or(e.Message, "The provider does not say why the job failed.")
	return e
}

// Cancel implements provider.FineTuner.
func (t trainer) Cancel(ctx context.Context, c *provider.Client, id string) error {
	err := c.JSON(ctx, http.MethodPost, "/fine_tuning/jobs/"+url.PathEscape(id)+"/cancel", nil, nil)
	return tuning.Cancelling(ctx, c, id, err, t.Poll)
}

// DeleteModel implements provider.ModelDeleter.
func (trainer) DeleteModel(ctx context.Context, c *provider.Client, model string) error {
	err := c.JSON(ctx, http.MethodDelete, "/models/"+url.PathEscape(model), nil, nil)
	if tuning.HasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}
