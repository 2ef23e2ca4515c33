package tuning

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// A Dialect describes how a vendor's fine-tuning differs from OpenAI's. The zero value is OpenAI's own.
type Dialect struct {
	// Locate, unless it is nil, returns the path and query of an operation for OpenAI's path.
	Locate func(c *configv1.Provider, path string) (string, url.Values, error)
	// Older reports whether what is configured serves an API older than method and metadata, which then are not sent
	// where they can be left out.
	Older func(*configv1.Provider) bool
	// AwaitsFiles says that a job is refused while its files are still being processed.
	AwaitsFiles bool
	// Notice, unless it is empty, says what has to be done before a tuned model can be called.
	Notice string
}

// OpenAI trains models over OpenAI's API, https://platform.openai.com/docs/api-reference/fine-tuning, by the OpenAPI
// document of openai/openai-openapi at f85dbe2; the status pausing is in the newer reference. It holds no state. It
// implements provider.FineTuner, Pauser, ModelDeleter and ResultOpener.
type OpenAI struct{ dialect Dialect }

// New returns the trainer of a dialect.
func New(d Dialect) *OpenAI { return &OpenAI{d} }

// metadataJob is where a job keeps the gateway's id of it.
const metadataJob = "modelgate_job"

// Bounds of the pages that are read for a job: pages of all jobs, of events while it runs, and once it is over.
const (
	jobPages       = 100
	pageSize       = 100
	eventPages     = 1
	eventPagesOver = 50
)

// locate returns the path of an operation with its query.
func (t *OpenAI) locate(c *provider.Client, path string, query url.Values) (string, error) {
	all := url.Values{}
	if t.dialect.Locate != nil {
		located, also, err := t.dialect.Locate(c.Config, path)
		if err != nil {
			return "", err
		}
		path, all = located, also
	}
	for name, values := range query {
		all[name] = values
	}
	if len(all) > 0 {
		path += "?" + all.Encode()
	}
	return path, nil
}

func (t *OpenAI) call(ctx context.Context, c *provider.Client, method, path string, query url.Values, in,
	out any) error {
	path, err := t.locate(c, path, query)
	if err != nil {
		return err
	}
	return c.JSON(ctx, method, path, in, out)
}

func (t *OpenAI) older(c *provider.Client) bool {
	return t.dialect.Older != nil && t.dialect.Older(c.Config)
}

// Upload implements provider.FineTuner.
func (t *OpenAI) Upload(ctx context.Context, c *provider.Client, f provider.TrainingFile) (string, error) {
	path, err := t.locate(c, "/files", nil)
	if err != nil {
		return "", err
	}
	var file struct {
		ID string `json:"id"`
	}
	if err := Upload(ctx, c, path, f, &file, Field{"purpose", "fine-tune"}); err != nil {
		return "", err
	}
	return Named(file.ID)
}

// Named returns the id of a vendor's new object.
func Named(id string) (string, error) {
	if id == "" {
		return "", fmt.Errorf("%w: it names nothing that was made", provider.ErrNotAnAnswer)
	}
	return id, nil
}

// hyperparameters are OpenAI's, which it names as it names them.
var hyperparameters = map[string]string{
	"n_epochs": "n_epochs", "batch_size": "batch_size", "learning_rate_multiplier": "learning_rate_multiplier",
	"beta":               "beta",
	"compute_multiplier": "compute_multiplier", "eval_interval": "eval_interval", "eval_samples": "eval_samples",
	"reasoning_effort": "reasoning_effort",
}

// A request is the request that creates a job.
type request struct {
	Model           string                     `json:"model"`
	TrainingFile    string                     `json:"training_file"`
	ValidationFile  string                     `json:"validation_file,omitempty"`
	Suffix          string                     `json:"suffix,omitempty"`
	Seed            *int64                     `json:"seed,omitempty"`
	Method          map[string]any             `json:"method,omitempty"`
	Hyperparameters map[string]json.RawMessage `json:"hyperparameters,omitempty"`
	Integrations    json.RawMessage            `json:"integrations,omitempty"`
	Metadata        map[string]string          `json:"metadata,omitempty"`
}

// Create implements provider.FineTuner.
func (t *OpenAI) Create(ctx context.Context, c *provider.Client, j provider.TuningJob) (string, error) {
	if j.Again {
		id, err := t.find(ctx, c, j.TrainingFile)
		if id != "" || err != nil {
			return id, err
		}
	}
	if t.dialect.AwaitsFiles {
		for _, id := range []string{j.TrainingFile, j.ValidationFile} {
			if err := t.await(ctx, c, id); err != nil {
				return "", err
			}
		}
	}
	settings, err := Hyperparameters(c, j.Method, hyperparameters) // "auto" is what OpenAI does anyway
	if err != nil {
		return "", err
	}
	r := request{Model: j.Model, TrainingFile: j.TrainingFile, ValidationFile: j.ValidationFile, Suffix: j.Suffix,
		Seed: j.Seed, Integrations: j.Integrations}
	if !t.older(c) {
		r.Metadata = map[string]string{metadataJob: j.ID}
	}
	switch method := Method(j.Method); {
	case method == "supervised" && t.older(c):
		r.Hyperparameters = settings
	case method != "supervised", len(settings) > 0:
		inner := map[string]any{"hyperparameters": settings}
		if len(j.Method.Grader) > 0 {
			inner["grader"] = j.Method.Grader
		}
		r.Method = map[string]any{"type": method, method: inner}
	}
	var made job
	if err := t.call(ctx, c, http.MethodPost, "/fine_tuning/jobs", nil, r, &made); err != nil {
		return "", err
	}
	return Named(made.ID)
}

// find returns the job of a file that was uploaded for one job only, or "".
func (t *OpenAI) find(ctx context.Context, c *provider.Client, file string) (string, error) {
	found := ""
	whole, err := pages(ctx, t, c, "/fine_tuning/jobs", jobPages, func(j job) string { return j.ID }, func(j job) bool {
		if j.TrainingFile == file {
			found = j.ID
		}
		return found == ""
	})
	if err == nil && found == "" && !whole {
		err = fmt.Errorf("the provider has more than %d fine-tuning jobs, among which one could not be looked up",
			jobPages*pageSize)
	}
	return found, err
}

// await returns an error while a file cannot be used yet. An empty id is no file.
func (t *OpenAI) await(ctx context.Context, c *provider.Client, id string) error {
	if id == "" {
		return nil
	}
	var file struct {
		Status  string          `json:"status"`
		Details json.RawMessage `json:"status_details"`
	}
	if err := t.call(ctx, c, http.MethodGet, "/files/"+url.PathEscape(id), nil, nil, &file); err != nil {
		return err
	}
	switch file.Status {
	case "processed", "":
		return nil
	case "error", "deleting", "deleted":
		return openai.CodeInvalidTrainingFile.On("training_file", "The provider could not read the file: %s",
			cmp.Or(strings.Trim(string(file.Details), `"`), file.Status))
	}
	return fmt.Errorf("the provider is still processing a training file, which is %s", file.Status)
}

// Poll implements provider.FineTuner.
func (t *OpenAI) Poll(ctx context.Context, c *provider.Client, id string) (provider.TuningReport, error) {
	path := "/fine_tuning/jobs/" + url.PathEscape(id)
	var j job
	if err := t.call(ctx, c, http.MethodGet, path, nil, nil, &j); err != nil {
		return provider.TuningReport{}, OfJob(err)
	}
	report, err := j.report()
	if err != nil {
		return provider.TuningReport{}, err
	}
	bound := eventPages
	if Over(report.Status) {
		bound = eventPagesOver
	}
	_, err = pages(ctx, t, c, path+"/events", bound, func(e event) string { return e.ID }, func(e event) bool {
		report.Events = append(report.Events, e.report())
		return true
	})
	if err == nil && report.Status != Validating && report.Status != Queued {
		_, err = pages(ctx, t, c, path+"/checkpoints", bound, func(k checkpoint) string { return k.ID },
			func(k checkpoint) bool {
				report.Checkpoints = append(report.Checkpoints, k.report())
				return true
			})
	}
	if err != nil && !Final(err) { // a vendor without one of these lists is no reason to give the job up
		return provider.TuningReport{}, err
	}
	if report.Status == Succeeded && report.Model != "" && t.dialect.Notice != "" {
		report.Events = append(report.Events, Notice("deploy", cmp.Or(j.FinishedAt, j.CreatedAt), t.dialect.Notice))
	}
	return report, nil
}

// Cancel implements provider.FineTuner.
func (t *OpenAI) Cancel(ctx context.Context, c *provider.Client, id string) error {
	return Cancelling(ctx, c, id, t.act(ctx, c, id, "cancel"), t.Poll)
}

// Pause implements provider.Pauser.
func (t *OpenAI) Pause(ctx context.Context, c *provider.Client, id string) error {
	return OfJob(t.act(ctx, c, id, "pause"))
}

// Resume implements provider.Pauser.
func (t *OpenAI) Resume(ctx context.Context, c *provider.Client, id string) error {
	return OfJob(t.act(ctx, c, id, "resume"))
}

func (t *OpenAI) act(ctx context.Context, c *provider.Client, id, what string) error {
	return t.call(ctx, c, http.MethodPost, "/fine_tuning/jobs/"+url.PathEscape(id)+"/"+what, nil, nil, nil)
}

// DeleteModel implements provider.ModelDeleter.
func (t *OpenAI) DeleteModel(ctx context.Context, c *provider.Client, model string) error {
	err := t.call(ctx, c, http.MethodDelete, "/models/"+url.PathEscape(model), nil, nil, nil)
	if HasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// OpenResult implements provider.ResultOpener.
func (t *OpenAI) OpenResult(ctx context.Context, c *provider.Client, id string) (io.ReadCloser, error) {
	path, err := t.locate(c, "/files/"+url.PathEscape(id)+"/content", nil)
	if err != nil {
		return nil, err
	}
	answer, err := c.Do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// pages gives take each item of a list, newest first, until it says no or as many pages were read as bound says. It
// reports whether the list was read to its end.
func pages[T any](ctx context.Context, t *OpenAI, c *provider.Client, path string, bound int, id func(T) string,
	take func(T) bool) (whole bool, err error) {
	query := url.Values{"limit": {fmt.Sprint(pageSize)}}
	for range bound {
		var page struct {
			Data []T  `json:"data"`
			More bool `json:"has_more"`
		}
		if err := t.call(ctx, c, http.MethodGet, path, query, nil, &page); err != nil {
			return false, err
		}
		for _, item := range page.Data {
			if !take(item) {
				return true, nil
			}
		}
		if !page.More || len(page.Data) == 0 {
			return true, nil
		}
		query.Set("after", id(page.Data[len(page.Data)-1]))
	}
	return false, nil
}
