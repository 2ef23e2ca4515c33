package together

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/tuning"
)

// trainer trains models by Together's API, https://docs.together.ai/reference/post-fine-tunes, by the OpenAPI document
// of togethercomputer/openapi at 090263a. It implements provider.FineTuner.
type trainer struct{}

// statuses are Together's; user_error is in its SDK only.
var statuses = map[string]string{
	"pending": tuning.Queued, "queued": tuning.Queued, "running": tuning.Running, "compressing": tuning.Running,
	"uploading":        tuning.Running,
	"cancel_requested": tuning.Running, "cancelled": tuning.Cancelled, "error": tuning.Failed,
	"user_error": tuning.Failed, "completed": tuning.Succeeded,
}

// A job is Together's.
type job struct {
	ID           string          `json:"id"`
	Status       string          `json:"status"`
	CreatedAt    string          `json:"created_at"`
	UpdatedAt    string          `json:"updated_at"`
	TrainingFile string          `json:"training_file"`
	OutputName   string          `json:"model_output_name"`
	XOutputName  string          `json:"x_model_output_name"` // the same, in newer answers
	TokenCount   int64           `json:"token_count"`
	Epochs       json.RawMessage `json:"n_epochs"`
	BatchSize    json.RawMessage `json:"batch_size"`
	LearningRate json.RawMessage `json:"learning_rate"`
	WandbProject string          `json:"wandb_project_name"`
	WandbURL     string          `json:"wandb_url"`
}

// An event is Together's.
type event struct {
	CreatedAt  string `json:"created_at"`
	Level      string `json:"level"`
	Message    string `json:"message"`
	Type       string `json:"type"`
	Step       int64  `json:"step"`
	TotalSteps int64  `json:"total_steps"`
	TokenCount int64  `json:"token_count"`
	Hash       string `json:"hash"`
}

// Upload implements provider.FineTuner.
func (trainer) Upload(ctx context.Context, c *provider.Client, f provider.TrainingFile) (string, error) {
	var file struct {
		ID string `json:"id"`
	}
	err := tuning.Upload(ctx, c, "/files/upload", f, &file, tuning.Field{Name: "purpose", Value: "fine-tune"},
		tuning.Field{Name: "file_name", Value: tuning.FileName(f)}, tuning.Field{Name: "file_type", Value: "jsonl"})
	if err != nil {
		return "", err
	}
	return tuning.Named(file.ID)
}

// Create implements provider.FineTuner.
func (trainer) Create(ctx context.Context, c *provider.Client, j provider.TuningJob) (string, error) {
	if j.Again {
		var all struct {
			Data []job `json:"data"`
		}
		if err := c.JSON(ctx, http.MethodGet, "/fine-tunes", nil, &all); err != nil {
			return "", err
		}
		if i := slices.IndexFunc(all.Data, func(made job) bool { return made.TrainingFile == j.TrainingFile }); i >= 0 {
			return tuning.Named(all.Data[i].ID)
		}
	}
	request, err := encode(c, j)
	if err != nil {
		return "", err
	}
	var made job
	if err := c.JSON(ctx, http.MethodPost, "/fine-tunes", request, &made); err != nil {
		return "", err
	}
	return tuning.Named(made.ID)
}

// encode returns the request for a job.
func encode(c *provider.Client, j provider.TuningJob) (map[string]any, error) {
	// A learning rate is absolute here, so OpenAI's multiplier has no place.
	known := map[string]string{"n_epochs": "n_epochs", "batch_size": "batch_size", "learning_rate": "learning_rate"}
	method := map[string]any{"method": "sft", "train_on_inputs": "auto"}
	switch tuning.Method(j.Method) {
	case "supervised":
	case "dpo":
		method, known["beta"] = map[string]any{"method": "dpo"}, "dpo_beta"
	default:
		return nil, tuning.Unsupported(c, "method.type")
	}
	settings, err := tuning.Hyperparameters(c, j.Method, known)
	if err != nil {
		return nil, err
	}
	r := map[string]any{"training_file": j.TrainingFile, "model": j.Model, "training_method": method}
	for name, value := range settings {
		if name == "dpo_beta" {
			method[name] = value
		} else {
			r[name] = value
		}
	}
	if j.Seed != nil {
		r["random_seed"] = *j.Seed
	}
	tuning.SetText(r, "validation_file", j.ValidationFile)
	tuning.SetText(r, "suffix", j.Suffix)
	wandb, err := tuning.ReadWandb(c, j.Integrations)
	if err != nil || wandb == nil {
		return r, err
	}
	if len(wandb.Tags) > 0 {
		return nil, tuning.Unsupported(c, "integrations[0].wandb.tags")
	}
	tuning.SetText(r, "wandb_project_name", wandb.Project)
	tuning.SetText(r, "wandb_name", wandb.Name)
	tuning.SetText(r, "wandb_entity", wandb.Entity)
	return r, nil
}

// Poll implements provider.FineTuner.
func (trainer) Poll(ctx context.Context, c *provider.Client, id string) (provider.TuningReport, error) {
	path := "/fine-tunes/" + url.PathEscape(id)
	var j job
	if err := c.JSON(ctx, http.MethodGet, path, nil, &j); err != nil {
		return provider.TuningReport{}, tuning.OfJob(err)
	}
	status, err := tuning.Status(statuses, j.Status)
	if err != nil {
		return provider.TuningReport{}, err
	}
	r := provider.TuningReport{Status: status, Hyperparameters: provider.Hyperparameters{}}
	for name, value := range map[string]json.RawMessage{"n_epochs": j.Epochs, "batch_size": j.BatchSize,
		"learning_rate": j.LearningRate} {
		if len(value) > 0 && string(value) != "null" {
			r.Hyperparameters[name] = value
		}
	}
	if tuning.Over(status) && j.TokenCount > 0 {
		r.TrainedTokens = &j.TokenCount
	}
	if status == tuning.Succeeded {
		r.Model = cmp.Or(j.OutputName, j.XOutputName)
	}
	if err := lists(ctx, c, path, &r); err != nil {
		return provider.TuningReport{}, err
	}
	if status == tuning.Failed {
		r.Error = failure(r.Events)
	}
	notices(&j, &r)
	return r, nil
}

// lists adds what the job has listed apart from itself.
func lists(ctx context.Context, c *provider.Client, path string, r *provider.TuningReport) error {
	var events struct {
		Data []event `json:"data"`
	}
	err := c.JSON(ctx, http.MethodGet, path+"/events", nil, &events)
	if err != nil && !tuning.Final(err) {
		return err
	}
	for _, e := range events.Data {
		r.Events = append(r.Events, e.report())
	}
	var checkpoints struct {
		Data []struct {
			Step      int64  `json:"step"`
			CreatedAt string `json:"created_at"`
			Type      string `json:"checkpoint_type"`
		} `json:"data"`
	}
	if r.Status == tuning.Queued {
		return nil
	}
	err = c.JSON(ctx, http.MethodGet, path+"/checkpoints", nil, &checkpoints)
	if err != nil && !tuning.Final(err) {
		return err
	}
	for _, k := range checkpoints.Data {
		step := strconv.FormatInt(k.Step, 10)
		r.Checkpoints = append(r.Checkpoints, provider.TuningCheckpoint{ID: tuning.EventID(k.Type, step),
			CreatedAt: unix(k.CreatedAt), Step: k.Step})
	}
	return nil
}

func (e event) report() provider.TuningEvent {
	out := provider.TuningEvent{CreatedAt: unix(e.CreatedAt), Level: "info", Message: cmp.Or(e.Message, e.Type),
		Type: "message"}
	out.ID = tuning.EventID(e.CreatedAt, e.Type, e.Message, e.Hash, strconv.FormatInt(e.Step, 10))
	switch { // legacy_iwarning is one of its levels
	case strings.HasSuffix(e.Level, "error"), e.Type == "job_error":
		out.Level = "error"
	case strings.HasSuffix(e.Level, "warning"), e.Type == "warning", e.Type == "billing_limit":
		out.Level = "warn"
	}
	data := map[string]any{}
	for name, n := range map[string]int64{"step": e.Step, "total_steps": e.TotalSteps, "token_count": e.TokenCount} {
		if n > 0 {
			data[name] = n
		}
	}
	if len(data) > 0 {
		data["type"] = e.Type
		out.Data, _ = json.Marshal(data) // strings and numbers
	}
	return out
}

// failure returns why a job failed, which Together only says among its events.
func failure(events []provider.TuningEvent) *provider.TuningError {
	e := &provider.TuningError{Code: openai.CodeTrainingFailed, Message: "The provider does not say why the job failed."}
	last := int64(-1)
	for _, event := range events {
		if event.Level == "error" && event.CreatedAt >= last {
			e.Message, last = event.Message, event.CreatedAt
		}
	}
	return e
}

// notices adds what a client has to know of Together.
func notices(j *job, r *provider.TuningReport) {
	at := cmp.Or(unix(j.UpdatedAt), unix(j.CreatedAt))
	if r.Status == tuning.Succeeded && r.Model != "" {
		r.Events = append(r.Events, tuning.Notice("deploy", at,
			"Together serves this model only at a dedicated endpoint, which somebody has to start there. "+
				"Ask your operator to do so, and to name the endpoint as the target of the Model in the gateway's configuration."))
	}
	if j.WandbProject != "" && j.WandbURL == "" && tuning.Over(r.Status) {
		r.Events = append(r.Events, tuning.Notice("wandb", at,
			"Together logged nothing to Weights & Biases: that takes an API key in each job, which OpenAI's interface does not have."))
	}
}

// Cancel implements provider.FineTuner.
func (t trainer) Cancel(ctx context.Context, c *provider.Client, id string) error {
	err := c.JSON(ctx, http.MethodPost, "/fine-tunes/"+url.PathEscape(id)+"/cancel", nil, nil)
	return tuning.Cancelling(ctx, c, id, err, t.Poll)
}

// unix reads a time. If it cannot be read, it is 0.
func unix(s string) int64 {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return 0
	}
	return t.Unix()
}
