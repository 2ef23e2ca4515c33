package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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

// The answers here are those of the examples in OpenAI's OpenAPI document, completed by its schemas.

var config = &configv1.Provider{Name: "openai", Vendor: "openai"}

func client(t *testing.T, h http.Handler) *provider.Client {
	return tuningtest.Client(t, Provider(), config, h)
}

func trainer() *tuning.OpenAI { return Provider().FineTuning.(*tuning.OpenAI) }

func TestTuningSurvivesAVendorThatFails(t *testing.T) {
	tuningtest.Failures(t, Provider(), config, provider.TuningJob{ID: "ftjob-1", Model: "m", TrainingFile: "file-1"},
		"ftjob-abc123")
}

func TestATrainingFileIsStreamed(t *testing.T) {
	tuningtest.Streams(t, Provider(), config,
		func(w http.ResponseWriter, _ *http.Request) { tuningtest.JSON(w, `{"id":"file-abc123"}`) })
}

func TestATrainingFileIsUploaded(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/files", func(w http.ResponseWriter, r *http.Request) {
		fields, name, text := tuningtest.Form(t, r)
		require.Equal(t, map[string]string{"purpose": "fine-tune"}, fields)
		require.Equal(t, "mydata.jsonl", name)
		require.Equal(t, "{}\n", text)
		tuningtest.JSON(w,
			`{"id":"file-abc123","object":"file","bytes":3,"created_at":1677610602,"filename":"mydata.jsonl","purpose":"fine-tune"}`)
	})
	id, err := trainer().Upload(t.Context(), client(t, mux), tuningtest.File("a/b/mydata.jsonl", "{}\n"))
	require.NoError(t, err)
	require.Equal(t, "file-abc123", id)
}

func TestAJobIsCreatedAsItWasAskedFor(t *testing.T) {
	seed := int64(7)
	for name, c := range map[string]struct {
		job  provider.TuningJob
		want string
	}{
		"the least": {provider.TuningJob{}, `{}`},
		"supervised": {provider.TuningJob{
			ValidationFile: "file-2", Suffix: "mine", Seed: &seed,
			Integrations: json.RawMessage(`[{"type":"wandb","wandb":{"project":"p","tags":["a"]}}]`),
			Method: provider.Method{Type: "supervised",
				Hyperparameters: provider.Hyperparameters{"n_epochs": json.RawMessage(`"auto"`),
					"batch_size": json.RawMessage(`4`)}},
		},
			`{"validation_file":"file-2","suffix":"mine","seed":7,"integrations":[{"type":"wandb","wandb":{"project":"p","tags":["a"]}}],
			"method":{"type":"supervised","supervised":{"hyperparameters":{"batch_size":4}}}}`},
		"preferences": {provider.TuningJob{Method: provider.Method{Type: "dpo",
			Hyperparameters: provider.Hyperparameters{"beta": json.RawMessage(`0.2`)}}},
			`{"method":{"type":"dpo","dpo":{"hyperparameters":{"beta":0.2}}}}`},
		"reinforcement": {provider.TuningJob{Method: provider.Method{Type: "reinforcement",
			Grader: json.RawMessage(`{"type":"string_check"}`)}},
			`{"method":{"type":"reinforcement","reinforcement":{"grader":{"type":"string_check"},"hyperparameters":{}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("POST /v1/fine_tuning/jobs", func(w http.ResponseWriter, r *http.Request) {
				var want map[string]any
				require.NoError(t, json.Unmarshal([]byte(c.want), &want))
				want["model"], want["training_file"], want["metadata"] = "gpt-4o-mini", "file-1",
					map[string]any{"modelgate_job": "ftjob-ours"}
				require.Empty(t, cmp.Diff(want, tuningtest.Body(t, r)))
				tuningtest.JSON(w, `{"id":"ftjob-abc123","status":"validating_files"}`)
			})
			c.job.ID, c.job.Model, c.job.TrainingFile = "ftjob-ours", "gpt-4o-mini", "file-1"
			id, err := trainer().Create(t.Context(), client(t, mux), c.job)
			require.NoError(t, err)
			require.Equal(t, "ftjob-abc123", id)
		})
	}
}

func TestAParameterOfAnotherVendorIsRefused(t *testing.T) {
	_, err := trainer().Create(t.Context(), client(t, http.NotFoundHandler()),
		provider.TuningJob{Model: "m", TrainingFile: "file-1",
			Method: provider.Method{Type: "supervised",
				Hyperparameters: provider.Hyperparameters{"learning_rate": json.RawMessage("0.1")}}})
	var e *openai.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "unsupported_parameter", string(e.Code))
	require.Equal(t, "method.supervised.hyperparameters.learning_rate", e.Param)
}

func TestALostAnswerToCreateMakesNoSecondJob(t *testing.T) {
	var made atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/fine_tuning/jobs", func(http.ResponseWriter, *http.Request) {
		made.Add(1)
		panic(http.ErrAbortHandler) // the job is made, and nobody hears of it
	})
	// two pages; ours is on the second
	mux.HandleFunc("GET /v1/fine_tuning/jobs", func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "100", r.FormValue("limit"))
		switch {
		case made.Load() == 0:
			tuningtest.JSON(w, `{"object":"list","data":[],"has_more":false}`)
		case r.FormValue("after") == "":
			tuningtest.JSON(w,
				`{"object":"list","data":[{"id":"ftjob-2","training_file":"file-2"},{"id":"ftjob-3","training_file":"file-3"}],"has_more":true}`)
		default:
			require.Equal(t, "ftjob-3", r.FormValue("after"))
			tuningtest.JSON(w, `{"object":"list","data":[{"id":"ftjob-1","training_file":"file-1"}],"has_more":false}`)
		}
	})
	c, job := client(t, mux), provider.TuningJob{ID: "ours", Model: "m", TrainingFile: "file-1"}
	_, err := trainer().Create(t.Context(), c, job)
	require.Error(t, err)
	require.False(t, tuning.Final(err))
	job.Again = true
	id, err := trainer().Create(t.Context(), c, job)
	require.NoError(t, err)
	require.Equal(t, "ftjob-1", id)
	require.Equal(t, int32(1), made.Load())
	job.TrainingFile = "file-4" // which never arrived
	_, err = trainer().Create(t.Context(), c, job)
	require.Error(t, err)
	require.Equal(t, int32(2), made.Load())
}

// polled serves one job, its events in pages of two, and its checkpoints.
func polled(t *testing.T, job string, events int) *provider.Client {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/fine_tuning/jobs/ftjob-1",
		func(w http.ResponseWriter, _ *http.Request) { tuningtest.JSON(w, job) })
	mux.HandleFunc("GET /v1/fine_tuning/jobs/ftjob-1/events", func(w http.ResponseWriter, r *http.Request) {
		first := events
		if after := r.FormValue("after"); after != "" {
			_, err := fmt.Sscanf(after, "ftevent-%d", &first)
			require.NoError(t, err)
			first--
		}
		page := []map[string]any{}
		for n := first; n > max(0, first-2); n-- {
			page = append(page, map[string]any{"object": "fine_tuning.job.event", "id": fmt.Sprintf("ftevent-%d", n),
				"created_at": 1692407400 + n,
				"level":      "info", "message": fmt.Sprintf("Step %d", n), "type": "metrics", "data": map[string]any{"step": n}})
		}
		text, _ := json.Marshal(map[string]any{"object": "list", "data": page, "has_more": first > 2})
		tuningtest.JSON(w, string(text))
	})
	mux.HandleFunc("GET /v1/fine_tuning/jobs/ftjob-1/checkpoints", func(w http.ResponseWriter, _ *http.Request) {
		tuningtest.JSON(w,
			`{"object":"list","data":[{"object":"fine_tuning.job.checkpoint","id":"ftckpt_1","created_at":1712211699,
			"fine_tuned_model_checkpoint":"ft:gpt-4o-mini:my-org:custom_suffix:9ABel2dg:ckpt-step-88","fine_tuning_job_id":"ftjob-1","metrics":{"step":88,"train_loss":0.478},"step_number":88}],"has_more":false}`)
	})
	return client(t, mux)
}

func TestAJobThatSucceededIsReportedWhole(t *testing.T) {
	c := polled(t,
		`{"object":"fine_tuning.job","id":"ftjob-1","model":"gpt-4o-mini","created_at":1692661014,"finished_at":1692661190,
		"fine_tuned_model":"ft:gpt-4o-mini:my-org:custom_suffix:7q8mpxmy","organization_id":"org-123","result_files":["file-r"],"status":"succeeded",
		"validation_file":null,"training_file":"file-1","hyperparameters":{"n_epochs":4,"batch_size":null},"trained_tokens":5768,"integrations":[],"seed":0,
		"estimated_finish":0,"error":{},"method":{"type":"supervised","supervised":{"hyperparameters":{"n_epochs":4,"batch_size":1,"learning_rate_multiplier":1.0}}}}`, 5)
	r, err := trainer().Poll(t.Context(), c, "ftjob-1")
	require.NoError(t, err)
	require.Equal(t, tuning.Succeeded, r.Status)
	require.Equal(t, "ft:gpt-4o-mini:my-org:custom_suffix:7q8mpxmy", r.Model)
	require.Equal(t, int64(5768), *r.TrainedTokens)
	require.Equal(t, []string{"file-r"}, r.ResultFiles)
	require.Nil(t, r.EstimatedFinish)
	require.Nil(t, r.Error)
	require.Equal(t, provider.Hyperparameters{"n_epochs": json.RawMessage("4"), "batch_size": json.RawMessage("1"),
		"learning_rate_multiplier": json.RawMessage("1.0")}, r.Hyperparameters)
	require.Len(t, r.Events, 5, "all pages of its events")
	require.Equal(t, provider.TuningEvent{ID: "ftevent-5", CreatedAt: 1692407405, Level: "info", Message: "Step 5",
		Type: "metrics", Data: json.RawMessage(`{"step":5}`)}, r.Events[0])
	require.Equal(t, []provider.TuningCheckpoint{{ID: "ftckpt_1", CreatedAt: 1712211699,
		Model: "ft:gpt-4o-mini:my-org:custom_suffix:9ABel2dg:ckpt-step-88", Step: 88,
		Metrics: json.RawMessage(`{"step":88,"train_loss":0.478}`)}}, r.Checkpoints)
}

func TestStatesOfJobs(t *testing.T) {
	for name, c := range map[string]struct {
		job    string
		status string
		failed *provider.TuningError
	}{
		"validating":                       {`"status":"validating_files"`, tuning.Validating, nil},
		"running, the model already named": {`"status":"running","fine_tuned_model":"ft:x"`, tuning.Running, nil},
		"pausing":                          {`"status":"pausing"`, tuning.Running, nil},
		"paused":                           {`"status":"paused"`, tuning.Paused, nil},
		"cancelled": {`"status":"cancelled","error":{"code":null,"message":null,"param":null}`,
			tuning.Cancelled, nil},
		"failed": {`"status":"failed","error":{"code":"invalid_training_file","message":"Line 3 is bad.","param":"training_file"}`, tuning.Failed,
			&provider.TuningError{Code: "invalid_training_file", Message: "Line 3 is bad.", Param: "training_file"}},
		"failed without a word": {`"status":"failed","error":null`, tuning.Failed,
			&provider.TuningError{Message: "The provider does not say why the job failed."}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := trainer().Poll(t.Context(), polled(t, `{"id":"ftjob-1",`+c.job+`}`, 0), "ftjob-1")
			require.NoError(t, err)
			require.Equal(t, c.status, r.Status)
			require.Equal(t, c.failed, r.Error)
			require.Empty(t, r.Model, "it cannot be used")
		})
	}
	_, err := trainer().Poll(t.Context(), polled(t, `{"id":"ftjob-1","status":"daydreaming"}`, 0), "ftjob-1")
	require.ErrorIs(t, err, provider.ErrNotAnAnswer)
	require.ErrorContains(t, err, "daydreaming")
}

func TestARunningJobIsPolledForItsNewestEventsOnly(t *testing.T) {
	r, err := trainer().Poll(t.Context(), polled(t, `{"id":"ftjob-1","status":"running","estimated_finish":1692661190}`,
		5), "ftjob-1")
	require.NoError(t, err)
	require.Len(t, r.Events, 2)
	require.Equal(t, int64(1692661190), *r.EstimatedFinish)
}

func TestCancelPauseAndResume(t *testing.T) {
	var called []string
	mux := http.NewServeMux()
	for _, what := range []string{"cancel", "pause", "resume"} {
		mux.HandleFunc("POST /v1/fine_tuning/jobs/ftjob-1/"+what, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Empty(t, body)
			called = append(called, what)
			tuningtest.JSON(w, `{"id":"ftjob-1"}`)
		})
	}
	c := client(t, mux)
	require.NoError(t, trainer().Cancel(t.Context(), c, "ftjob-1"))
	require.NoError(t, trainer().Pause(t.Context(), c, "ftjob-1"))
	require.NoError(t, trainer().Resume(t.Context(), c, "ftjob-1"))
	require.Equal(t, []string{"cancel", "pause", "resume"}, called)
}

func TestCancellingAJobThatIsOverDoesNothing(t *testing.T) {
	for status, over := range map[string]bool{"succeeded": true, "cancelled": true, "running": false} {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/fine_tuning/jobs/ftjob-1/cancel", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			tuningtest.JSON(w,
				`{"error":{"message":"Job has already completed: ftjob-1","type":"invalid_request_error","param":null,"code":null}}`)
		})
		mux.HandleFunc("GET /v1/fine_tuning/jobs/ftjob-1", func(w http.ResponseWriter, _ *http.Request) {
			tuningtest.JSON(w, `{"id":"ftjob-1","status":"`+status+`"}`)
		})
		mux.HandleFunc("GET /v1/fine_tuning/jobs/ftjob-1/{list}",
			func(w http.ResponseWriter, _ *http.Request) { tuningtest.JSON(w, `{"data":[]}`) })
		err := trainer().Cancel(t.Context(), client(t, mux), "ftjob-1")
		require.Equal(t, over, err == nil, status)
	}
}

func TestModelsAreDeletedAndResultsRead(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("DELETE /v1/models/{model}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("model") != "ft:m:o:s:1" {
			w.WriteHeader(http.StatusNotFound)
		}
		tuningtest.JSON(w, `{"deleted":true}`)
	})
	mux.HandleFunc("GET /v1/files/file-r/content", func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, "step,train_loss\n")
	})
	c := client(t, mux)
	require.NoError(t, trainer().DeleteModel(t.Context(), c, "ft:m:o:s:1"))
	require.NoError(t, trainer().DeleteModel(t.Context(), c, "ft:m:o:s:gone"))
	content, err := trainer().OpenResult(t.Context(), c, "file-r")
	require.NoError(t, err)
	text, err := io.ReadAll(content)
	require.NoError(t, err)
	require.NoError(t, content.Close())
	require.Equal(t, "step,train_loss\n", string(text))
}
