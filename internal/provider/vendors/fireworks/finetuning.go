package fireworks

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/tuning"
)

// trainer trains models by Fireworks's API for accounts, https://docs.fireworks.ai/fine-tuning/fine-tuning-via-api, by
// the types of fw-ai-external/python-sdk at 8399c12. A job's id is the client's to choose, so creating one twice makes
// one. What the gateway calls a job's id is its place in the account, supervisedFineTuningJobs/x or dpoJobs/x. It
// implements provider.FineTuner and ModelDeleter.
type trainer struct{}

// maxUpload is the largest file that can be uploaded to the API, in bytes; larger ones go to a signed URL of a store
// that is not the provider's.
const maxUpload = 150_000_000

// The kinds of jobs.
const (
	supervisedJobs = "supervisedFineTuningJobs"
	dpoJobs        = "dpoJobs"
)

// account returns the resource name of the configured account.
func account(c *provider.Client) (string, error) {
	if c.Config.GetProject() == "" {
		return "", openai.CodeProviderNotConfigured.New(
			"The provider '%s' cannot train models: it has no project. Ask your operator to set it to the id of the Fireworks account.", c.Config.GetName())
	}
	return "accounts/" + c.Config.GetProject(), nil
}

// call asks for a resource of the account; place is its path there, with a query.
func call(ctx context.Context, c *provider.Client, method, place string, in, out any) error {
	a, err := account(c)
	if err != nil {
		return err
	}
	return c.JSON(ctx, method, provider.Root+"/v1/"+a+"/"+place, in, out)
}

// A status is the one that Google's APIs have.
type status struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (s *status) failed() bool { return s != nil && s.Code != "" && s.Code != "OK" }

// Upload implements provider.FineTuner.
func (trainer) Upload(ctx context.Context, c *provider.Client, f provider.TrainingFile) (string, error) {
	a, err := account(c)
	if err != nil {
		return "", err
	}
	if f.Size > maxUpload {
		return "", openai.CodeFileTooLarge.On("training_file",
			"The file is too large: the provider '%s' takes %d MB at most. Use a smaller file or choose another model.",
			c.Config.GetName(), maxUpload/1_000_000)
	}
	id := "mg-" + strings.ToLower(rand.Text())
	request := map[string]any{"datasetId": id, "dataset": map[string]any{"displayName": f.Name,
		"userUploaded": map[string]any{}}}
	if err := call(ctx, c, http.MethodPost, "datasets", request, nil); err != nil {
		return "", err
	}
	return id, tuning.Upload(ctx, c, provider.Root+"/v1/"+a+"/datasets/"+id+":upload", f, nil)
}

// await returns an error while a dataset cannot be used yet. An empty id is none.
func await(ctx context.Context, c *provider.Client, id, param string) error {
	if id == "" {
		return nil
	}
	var dataset struct {
		State  string  `json:"state"`
		Status *status `json:"status"`
	}
	if err := call(ctx, c, http.MethodGet, "datasets/"+url.PathEscape(id), nil, &dataset); err != nil {
		return err
	}
	switch {
	case dataset.State == "READY":
		return nil
	case dataset.Status.failed():
		return openai.CodeInvalidTrainingFile.On(param, "The provider could not read the file: %s",
			cmp.Or(dataset.Status.Message, dataset.Status.Code))
	}
	return fmt.Errorf("the provider is still processing a dataset, which is %s", cmp.Or(dataset.State, "in no state"))
}

// Create implements provider.FineTuner. It need not look for a job that may be there: the same one has the same id.
func (trainer) Create(ctx context.Context, c *provider.Client, j provider.TuningJob) (string, error) {
	a, err := account(c)
	if err != nil {
		return "", err
	}
	kind, request, err := encode(c, a, j)
	if err != nil {
		return "", err
	}
	for param, id := range map[string]string{"training_file": j.TrainingFile, "validation_file": j.ValidationFile} {
		if err := await(ctx, c, id, param); err != nil {
			return "", err
		}
	}
	id := jobID(j)
	query := url.Values{"supervisedFineTuningJobId": {id}}
	if kind == dpoJobs {
		query = url.Values{"dpoJobId": {id}}
	}
	err = call(ctx, c, http.MethodPost, kind+"?"+query.Encode(), request, nil)
	if err != nil && !tuning.HasStatus(err, http.StatusConflict) { // it is there already
		return "", err
	}
	return kind + "/" + id, nil
}

// jobID returns the id of a job: letters, digits and dashes, at most 63.
func jobID(j provider.TuningJob) string { return "mg-" + tuning.EventID(j.ID) }

// encode returns what kind of job it is, and the request for it.
func encode(c *provider.Client, account string, j provider.TuningJob) (string, map[string]any, error) {
	if j.Seed != nil {
		return "", nil, tuning.Unsupported(c, "seed")
	}
	// A learning rate is absolute here, so OpenAI's multiplier has no place. A batch is of tokens, unless it is of
	// samples.
	known := map[string]string{"n_epochs": "epochs", "batch_size": "batchSizeSamples", "learning_rate": "learningRate"}
	kind := supervisedJobs
	switch tuning.Method(j.Method) {
	case "supervised":
	case "dpo":
		kind, known["beta"] = dpoJobs, "beta"
	default:
		return "", nil, tuning.Unsupported(c, "method.type")
	}
	settings, err := tuning.Hyperparameters(c, j.Method, known)
	if err != nil {
		return "", nil, err
	}
	r := map[string]any{"dataset": account + "/datasets/" + j.TrainingFile, "displayName": j.ID}
	common := r // a supervised job has its settings there
	if kind == dpoJobs {
		if j.ValidationFile != "" {
			return "", nil, tuning.Unsupported(c, "validation_file")
		}
		loss := map[string]any{"method": "DPO"}
		if beta := settings["beta"]; beta != nil {
			loss["dpo"] = map[string]any{"beta": beta}
			delete(settings, "beta")
		}
		common = map[string]any{}
		r["lossConfig"], r["trainingConfig"] = loss, common
	} else if j.ValidationFile != "" {
		r["evaluationDataset"] = account + "/datasets/" + j.ValidationFile
	}
	common["baseModel"], common["outputModel"] = j.Model, account+"/models/"+modelID(j)
	for name, value := range settings {
		common[name] = value
	}
	wandb, err := tuning.ReadWandb(c, j.Integrations)
	switch {
	case err != nil || wandb == nil:
		return kind, r, err
	case len(wandb.Tags) > 0:
		return "", nil, tuning.Unsupported(c, "integrations[0].wandb.tags")
	}
	config := map[string]any{"enabled": true, "project": wandb.Project}
	tuning.SetText(config, "entity", wandb.Entity)
	tuning.SetText(config, "runId", wandb.Name)
	r["wandbConfig"] = config
	return kind, r, nil
}

// modelID returns the id of a job's model, with as much of the suffix as an id can have.
func modelID(j provider.TuningJob) string {
	suffix := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(j.Suffix))
	if suffix = strings.Trim(suffix[:min(len(suffix), 30)], "-"); suffix != "" {
		suffix += "-"
	}
	return "mg-" + suffix + tuning.EventID(j.ID)
}

// DeleteModel implements provider.ModelDeleter.
func (trainer) DeleteModel(ctx context.Context, c *provider.Client, model string) error {
	a, err := account(c)
	if err != nil {
		return err
	}
	id, ok := strings.CutPrefix(model, a+"/models/")
	if !ok {
		return openai.CodeInvalidValue.On("model",
			"The model '%s' is not one of the account that the provider '%s' is configured with.", model, c.Config.GetName())
	}
	err = call(ctx, c, http.MethodDelete, "models/"+url.PathEscape(id), nil, nil)
	if tuning.HasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}
