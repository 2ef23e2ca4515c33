package mistral

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/tuning"
	"github.com/modelgate/modelgate/internal/provider/tuning/tuningtest"
)

// The answers here are made by the types of Mistral's Python SDK.

var tuningConfig = &configv1.Provider{Name: "mistral", Vendor: "mistral"}

func tuningClient(t *testing.T, h http.Handler) *provider.Client {
	return tuningtest.Client(t, Provider(), tuningConfig, h)
}

func TestTuningSurvivesAVendorThatFails(t *testing.T) {
	tuningtest.Failures(t, Provider(), tuningConfig, provider.TuningJob{ID: "ftjob-1", Model: "m", TrainingFile: "f1"},
		"j1")
}

func TestATrainingFileIsStreamed(t *testing.T) {
	tuningtest.Streams(t, Provider(), tuningConfig,
		func(w http.ResponseWriter, _ *http.Request) { tuningtest.JSON(w, `{"id":"f1"}`) })
}

func TestATrainingFileIsUploaded(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/files", func(w http.ResponseWriter, r *http.Request) {
		fields, name, _ := tuningtest.Form(t, r)
		require.Equal(t, map[string]string{"purpose": "fine-tune"}, fields)
		require.Equal(t, "data.jsonl", name)
		tuningtest.JSON(w,
			`{"id":"497f6eca-6276-4993-bfeb-53cbbbba6f09","object":"file","bytes":3,"created_at":1716963433,"filename":"data.jsonl","purpose":"fine-tune","sample_type":"instruct","source":"upload"}`)
	})
	id, err := trainer{}.Upload(t.Context(), tuningClient(t, mux), tuningtest.File("data.jsonl", "{}\n"))
	require.NoError(t, err)
	require.Equal(t, "497f6eca-6276-4993-bfeb-53cbbbba6f09", id)
}

func TestAJobIsCreated(t *testing.T) {
	seed := int64(7)
	hyper := func(name, value string) provider.Method {
		return provider.Method{Type: "supervised", Hyperparameters: provider.Hyperparameters{name: json.RawMessage(value)}}
	}
	for name, c := range map[string]struct {
		job         provider.TuningJob
		want, param string
	}{
		"the least": {provider.TuningJob{}, `{"hyperparameters":{}}`, ""},
		"all there is": {provider.TuningJob{ValidationFile: "f2", Suffix: "mine", Method: hyper("n_epochs", "3")},
			`{"hyperparameters":{"epochs":3},"validation_files":["f2"],"suffix":"mine"}`, ""},
		"auto is left out": {provider.TuningJob{Method: hyper("batch_size", `"auto"`)}, `{"hyperparameters":{}}`, ""},
		"the size of batches": {provider.TuningJob{Method: hyper("batch_size", "8")}, "",
			"method.supervised.hyperparameters.batch_size"},
		"a seed":      {provider.TuningJob{Seed: &seed}, "", "seed"},
		"preferences": {provider.TuningJob{Method: provider.Method{Type: "dpo"}}, "", "method.type"},
		"an integration": {provider.TuningJob{
			Integrations: json.RawMessage(`[{"type":"wandb","wandb":{"project":"p"}}]`)}, "", "integrations"},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("POST /v1/fine_tuning/jobs", func(w http.ResponseWriter, r *http.Request) {
				var want map[string]any
				require.NoError(t, json.Unmarshal([]byte(c.want), &want))
				want["model"], want["training_files"], want["auto_start"], want["job_type"] = "open-mistral-7b",
					[]any{map[string]any{"file_id": "f1", "weight": 1.0}}, true, "completion"
				require.Empty(t, cmp.Diff(want, tuningtest.Body(t, r)))
				tuningtest.JSON(w,
					`{"id":"j1","auto_start":true,"model":"open-mistral-7b","status":"QUEUED","job_type":"completion","created_at":1,"modified_at":1,"training_files":["f1"]}`)
			})
			c.job.Model, c.job.TrainingFile = "open-mistral-7b", "f1"
			id, err := trainer{}.Create(t.Context(), tuningClient(t, mux), c.job)
			if c.param == "" {
				require.NoError(t, err)
				require.Equal(t, "j1", id)
				return
			}
			var e *openai.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "unsupported_parameter", string(e.Code))
			require.Equal(t, c.param, e.Param)
		})
	}
}

func TestALostAnswerToCreateMakesNoSecondJob(t *testing.T) {
	var made atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/fine_tuning/jobs", func(http.ResponseWriter, *http.Request) {
		made.Add(1)
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("GET /v1/fine_tuning/jobs", func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "100", r.FormValue("page_size"))
		if r.FormValue("page") == "0" { // a full page of other jobs
			one := `{"id":"other","status":"SUCCESS","training_files":["f0"]}`
			tuningtest.JSON(w, `{"object":"list","total":101,"data":[`+one+strings.Repeat(","+one, 99)+`]}`)
			return
		}
		require.Equal(t, "1", r.FormValue("page"))
		tuningtest.JSON(w, `{"object":"list","total":101,"data":[{"id":"j1","status":"QUEUED","training_files":["f1"]}]}`)
	})
	c, job := tuningClient(t, mux), provider.TuningJob{Model: "m", TrainingFile: "f1"}
	_, err := trainer{}.Create(t.Context(), c, job)
	require.Error(t, err)
	job.Again = true
	id, err := trainer{}.Create(t.Context(), c, job)
	require.NoError(t, err)
	require.Equal(t, "j1", id)
	require.Equal(t, int32(1), made.Load())
}

func tuned(t *testing.T, job string) *provider.Client {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/fine_tuning/jobs/j1", func(w http.ResponseWriter, _ *http.Request) {
		tuningtest.JSON(w,
			`{"id":"j1","auto_start":true,"model":"open-mistral-7b","job_type":"completion","created_at":1716963433,"modified_at":1716963500,"training_files":["f1"],
			"hyperparameters":{"training_steps":null,"learning_rate":0.0001,"epochs":2.5},`+job+`}`)
	})
	return tuningClient(t, mux)
}

func TestAJobIsReported(t *testing.T) {
	c := tuned(t,
		`"status":"SUCCESS","fine_tuned_model":"ft:open-mistral-7b:587a6b29:20240514:7e773925","trained_tokens":1234,
		"events":[{"name":"status-updated","data":{"status":"SUCCESS"},"created_at":1716963500},{"name":"status-updated","data":{"status":"RUNNING"},"created_at":1716963450}],
		"checkpoints":[{"metrics":{"train_loss":0.816135,"valid_loss":0.819697,"valid_mean_token_accuracy":1.765035},"step_number":100,"created_at":1716963470}]`)
	r, err := trainer{}.Poll(t.Context(), c, "j1")
	require.NoError(t, err)
	require.Equal(t, tuning.Succeeded, r.Status)
	require.Equal(t, "ft:open-mistral-7b:587a6b29:20240514:7e773925", r.Model)
	require.Equal(t, int64(1234), *r.TrainedTokens)
	require.Equal(t, provider.Hyperparameters{"learning_rate": json.RawMessage("0.0001"),
		"n_epochs": json.RawMessage("2.5")}, r.Hyperparameters)
	require.Len(t, r.Events, 2)
	require.Equal(t, "status-updated: RUNNING", r.Events[1].Message)
	require.NotEqual(t, r.Events[0].ID, r.Events[1].ID)
	require.Equal(t, int64(100), r.Checkpoints[0].Step)
	require.JSONEq(t, `{"train_loss":0.816135,"valid_loss":0.819697,"valid_mean_token_accuracy":1.765035}`,
		string(r.Checkpoints[0].Metrics))
}

func TestStatesOfJobs(t *testing.T) {
	why := `"events":[{"name":"status-updated","data":{"status":"FAILED","error":"Line 3 is bad."},"created_at":5}]`
	for status, want := range map[string]string{
		"QUEUED": tuning.Queued, "STARTED": tuning.Queued, "VALIDATING": tuning.Validating, "VALIDATED": tuning.Queued,
		"RUNNING":                tuning.Running,
		"CANCELLATION_REQUESTED": tuning.Running, "CANCELLED": tuning.Cancelled, "SUCCESS": tuning.Succeeded,
		"FAILED": tuning.Failed, "FAILED_VALIDATION": tuning.Failed,
	} {
		r, err := trainer{}.Poll(t.Context(), tuned(t, fmt.Sprintf(`"status":%q,"fine_tuned_model":"ft:x",%s`, status, why)),
			"j1")
		require.NoError(t, err)
		require.Equal(t, want, r.Status)
		require.Equal(t, want == tuning.Succeeded, r.Model != "")
		switch status {
		case "FAILED":
			require.Equal(t, &provider.TuningError{Code: "training_failed", Message: "Line 3 is bad."}, r.Error)
		case "FAILED_VALIDATION":
			require.Equal(t, &provider.TuningError{Code: "invalid_training_file", Message: "Line 3 is bad.",
				Param: "training_file"}, r.Error)
		default:
			require.Nil(t, r.Error)
		}
		require.Equal(t, "error", r.Events[0].Level)
	}
	_, err := trainer{}.Poll(t.Context(), tuned(t, `"status":"DAYDREAMING"`), "j1")
	require.ErrorContains(t, err, "DAYDREAMING")
}

func TestCancellingAndDeleting(t *testing.T) {
	for status, over := range map[string]bool{"SUCCESS": true, "RUNNING": false} {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/fine_tuning/jobs/j1/cancel",
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
		mux.HandleFunc("GET /v1/fine_tuning/jobs/j1",
			func(w http.ResponseWriter, _ *http.Request) { tuningtest.JSON(w, `{"id":"j1","status":"`+status+`"}`) })
		mux.HandleFunc("DELETE /v1/models/{model}", func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("model") != "ft:x:1" {
				w.WriteHeader(http.StatusNotFound)
			}
			tuningtest.JSON(w, `{"id":"ft:x:1","object":"model","deleted":true}`)
		})
		c := tuningClient(t, mux)
		require.Equal(t, over, trainer{}.Cancel(t.Context(), c, "j1") == nil, status)
		require.NoError(t, trainer{}.DeleteModel(t.Context(), c, "ft:x:1"))
		require.NoError(t, trainer{}.DeleteModel(t.Context(), c, "ft:gone"))
	}
}
