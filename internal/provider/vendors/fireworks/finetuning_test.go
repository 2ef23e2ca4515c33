package fireworks

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
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

// The answers here are made by Fireworks's reference and the types of its Python SDK. Errors have the form of
// Google's.

var config = &configv1.Provider{Name: "fireworks", Vendor: "fireworks", Project: "acme"}

const ofAccount = "/v1/accounts/acme/" // beside, not below, the endpoint's path

func client(t *testing.T, h http.Handler) *provider.Client {
	return tuningtest.Client(t, Provider(), config, h)
}

func TestTuningSurvivesAVendorThatFails(t *testing.T) {
	p := Provider()
	// A job whose id is there already is the same job: nothing else may say so.
	tuningtest.Failures(t, p, config, provider.TuningJob{ID: "ftjob-1", Model: "m", TrainingFile: "mg-1"}, supervisedJobs+
		"/mg-1")
}

func TestATrainingFileIsStreamed(t *testing.T) {
	tuningtest.Streams(t, Provider(), config,
		func(w http.ResponseWriter, _ *http.Request) { tuningtest.JSON(w, `{"id":"x"}`) })
}

func TestATrainingFileIsUploaded(t *testing.T) {
	made, uploaded := "", ""
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+ofAccount+"datasets", func(w http.ResponseWriter, r *http.Request) {
		body := tuningtest.Body(t, r)
		made = body["datasetId"].(string)
		require.Equal(t, map[string]any{"displayName": "data.jsonl", "userUploaded": map[string]any{}}, body["dataset"])
		tuningtest.JSON(w, `{"name":"accounts/acme/datasets/`+made+`","state":"UPLOADING"}`)
	})
	mux.HandleFunc("POST "+ofAccount+"datasets/{upload}", func(w http.ResponseWriter, r *http.Request) {
		fields, name, text := tuningtest.Form(t, r)
		require.Empty(t, fields)
		require.Equal(t, "data.jsonl", name)
		require.Equal(t, "{}\n", text)
		uploaded = r.PathValue("upload")
		tuningtest.JSON(w, `{"id":"x"}`)
	})
	id, err := trainer{}.Upload(t.Context(), client(t, mux), tuningtest.File("data.jsonl", "{}\n"))
	require.NoError(t, err)
	require.Equal(t, made, id)
	require.Equal(t, made+":upload", uploaded)
	require.Regexp(t, `^[a-z][a-z0-9-]{0,61}[a-z0-9]$`, id)

	_, err = trainer{}.Upload(t.Context(), client(t, mux), provider.TrainingFile{Size: maxUpload + 1})
	require.True(t, tuning.Final(err))
	require.ErrorContains(t, err, "too large")
}

func TestAnAccountMustBeConfigured(t *testing.T) {
	c := tuningtest.Client(t, Provider(), &configv1.Provider{Name: "fw"}, http.NotFoundHandler())
	_, err := trainer{}.Upload(t.Context(), c, tuningtest.File("f", ""))
	require.True(t, tuning.Final(err))
	require.ErrorContains(t, err, "'fw' cannot train models: it has no project")
}

// creating serves datasets that are ready, and takes jobs, each id once.
func creating(t *testing.T, made *atomic.Int32, took func(kind, id string, body map[string]any)) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ofAccount+"datasets/{id}", func(w http.ResponseWriter, r *http.Request) {
		tuningtest.JSON(w, `{"name":"accounts/acme/datasets/`+r.PathValue("id")+`","state":"READY","status":{"code":"OK"}}`)
	})
	var ids sync.Map
	for kind, param := range map[string]string{"supervisedFineTuningJobs": "supervisedFineTuningJobId",
		"dpoJobs": "dpoJobId"} {
		mux.HandleFunc("POST "+ofAccount+kind, func(w http.ResponseWriter, r *http.Request) {
			id := r.URL.Query().Get(param)
			require.Regexp(t, `^[a-z][a-z0-9-]{0,61}[a-z0-9]$`, id)
			took(kind, id, tuningtest.Body(t, r))
			if _, taken := ids.LoadOrStore(kind+id, true); taken {
				w.WriteHeader(http.StatusConflict)
				tuningtest.JSON(w, `{"code":6,"message":"already exists","details":[]}`)
				return
			}
			if made.Add(1) == 1 {
				panic(http.ErrAbortHandler) // the first answer is lost
			}
			tuningtest.JSON(w, `{"name":"accounts/acme/`+kind+`/`+id+`","state":"JOB_STATE_CREATING"}`)
		})
	}
	return mux
}

func TestALostAnswerToCreateMakesNoSecondJob(t *testing.T) {
	var made atomic.Int32
	c := client(t, creating(t, &made, func(string, string, map[string]any) {}))
	job := provider.TuningJob{ID: "ftjob-1", Model: "m", TrainingFile: "mg-d"}
	_, err := trainer{}.Create(t.Context(), c, job)
	require.Error(t, err)
	require.False(t, tuning.Final(err))
	job.Again = true
	id, err := trainer{}.Create(t.Context(), c, job)
	require.NoError(t, err)
	require.Equal(t, supervisedJobs+"/"+jobID(job), id)
	require.Equal(t, int32(1), made.Load())
	job.ID = "ftjob-2"
	other, err := trainer{}.Create(t.Context(), c, job)
	require.NoError(t, err)
	require.NotEqual(t, id, other)
}

func TestAJobIsCreated(t *testing.T) {
	seed := int64(7)
	hyper := func(name, value string) provider.Method {
		return provider.Method{Type: "supervised", Hyperparameters: provider.Hyperparameters{name: json.RawMessage(value)}}
	}
	model := regexp.MustCompile(`^accounts/acme/models/mg-(my-own-)?[0-9a-f]{24}$`)
	for name, c := range map[string]struct {
		job               provider.TuningJob
		kind, want, param string
	}{
		"the least": {provider.TuningJob{}, "supervisedFineTuningJobs", `{"baseModel":"accounts/fireworks/models/x"}`, ""},
		"all there is": {provider.TuningJob{ValidationFile: "mg-v", Suffix: "My own!",
			Integrations: json.RawMessage(`[{"type":"wandb","wandb":{"project":"p","entity":"e"}}]`),
			Method: provider.Method{Type: "supervised",
				Hyperparameters: provider.Hyperparameters{"n_epochs": json.RawMessage("2"), "batch_size": json.RawMessage("8")}}},
			"supervisedFineTuningJobs",
			`{"baseModel":"accounts/fireworks/models/x","evaluationDataset":"accounts/acme/datasets/mg-v","epochs":2,"batchSizeSamples":8,
			"wandbConfig":{"enabled":true,"project":"p","entity":"e"}}`, ""},
		"preferences": {provider.TuningJob{Method: provider.Method{Type: "dpo",
			Hyperparameters: provider.Hyperparameters{"beta": json.RawMessage("0.2"), "n_epochs": json.RawMessage("2")}}},
			"dpoJobs",
			`{"trainingConfig":{"baseModel":"accounts/fireworks/models/x","epochs":2},"lossConfig":{"method":"DPO","dpo":{"beta":0.2}}}`, ""},
		"preferences with a validation file": {provider.TuningJob{ValidationFile: "mg-v",
			Method: provider.Method{Type: "dpo"}}, "", "", "validation_file"},
		"a multiplier of an unknown rate": {provider.TuningJob{Method: hyper("learning_rate_multiplier", "2")}, "", "",
			"method.supervised.hyperparameters.learning_rate_multiplier"},
		"a seed": {provider.TuningJob{Seed: &seed}, "", "", "seed"},
		"reinforcement": {provider.TuningJob{Method: provider.Method{Type: "reinforcement"}}, "", "",
			"method.type"},
	} {
		t.Run(name, func(t *testing.T) {
			var made atomic.Int32
			made.Store(1) // no answer is lost
			cl := client(t, creating(t, &made, func(kind, _ string, body map[string]any) {
				require.Equal(t, c.kind, kind)
				at := body
				if kind == "dpoJobs" {
					at = body["trainingConfig"].(map[string]any)
				}
				require.Regexp(t, model, at["outputModel"])
				delete(at, "outputModel")
				var want map[string]any
				require.NoError(t, json.Unmarshal([]byte(c.want), &want))
				want["dataset"], want["displayName"] = "accounts/acme/datasets/mg-d", "ftjob-1"
				require.Empty(t, cmp.Diff(want, body))
			}))
			c.job.ID, c.job.Model, c.job.TrainingFile = "ftjob-1", "accounts/fireworks/models/x", "mg-d"
			id, err := trainer{}.Create(t.Context(), cl, c.job)
			if c.param == "" {
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(id, c.kind+"/mg-"), id)
				return
			}
			var e *openai.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "unsupported_parameter", string(e.Code))
			require.Equal(t, c.param, e.Param)
		})
	}
}

func TestAJobWaitsForItsDatasets(t *testing.T) {
	for dataset, final := range map[string]bool{
		`{"state":"UPLOADING"}`: false, `{}`: false,
		`{"state":"UPLOADING","status":{"code":"INVALID_ARGUMENT","message":"Line 3 is bad."}}`: true,
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("GET "+ofAccount+"datasets/mg-d",
			func(w http.ResponseWriter, _ *http.Request) { tuningtest.JSON(w, dataset) })
		_, err := trainer{}.Create(t.Context(), client(t, mux), provider.TuningJob{ID: "ftjob-1", Model: "m",
			TrainingFile: "mg-d"})
		require.Error(t, err)
		require.Equal(t, final, tuning.Final(err), "%s: %v", dataset, err)
	}
}

func polled(t *testing.T, kind, job string) *provider.Client {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ofAccount+kind+"/mg-1", func(w http.ResponseWriter, _ *http.Request) {
		tuningtest.JSON(w, `{"name":"accounts/acme/`+kind+
			`/mg-1","dataset":"accounts/acme/datasets/mg-d","createTime":"2023-11-07T05:31:56Z","updateTime":"2023-11-07T05:31:57.5Z",`+job+`}`)
	})
	return client(t, mux)
}

func TestAJobIsReported(t *testing.T) {
	settings := `"epochs":2,"batchSizeSamples":8,"learningRate":0.0001,"outputModel":"accounts/acme/models/mg-x"`
	for kind, job := range map[string]string{supervisedJobs: settings, dpoJobs: `"trainingConfig":{` + settings + `}`} {
		r, err := trainer{}.Poll(t.Context(), polled(t, kind,
			`"state":"JOB_STATE_COMPLETED","status":{"code":"OK","message":""},`+job), kind+"/mg-1")
		require.NoError(t, err)
		require.Equal(t, tuning.Succeeded, r.Status)
		require.Equal(t, "accounts/acme/models/mg-x", r.Model)
		require.Equal(t, provider.Hyperparameters{"n_epochs": json.RawMessage("2"), "batch_size": json.RawMessage("8"),
			"learning_rate": json.RawMessage("0.0001")}, r.Hyperparameters)
		require.Len(t, r.Events, 2)
		require.Equal(t, "COMPLETED", r.Events[0].ID)
		require.Equal(t, int64(1699335117), r.Events[0].CreatedAt)
		require.Contains(t, r.Events[1].Message, "only on a deployment")
	}
	r, err := trainer{}.Poll(t.Context(), polled(t, supervisedJobs,
		`"state":"JOB_STATE_RUNNING","jobProgress":{"percent":40,"epoch":1}`), supervisedJobs+"/mg-1")
	require.NoError(t, err)
	require.Equal(t, "40% of the training is done.", r.Events[1].Message)
	require.JSONEq(t, `{"percent":40,"epoch":1}`, string(r.Events[1].Data))
}

func TestStatesOfJobs(t *testing.T) {
	for state, want := range map[string]string{
		"UNSPECIFIED": tuning.Queued, "CREATING": tuning.Validating, "RUNNING": tuning.Running,
		"COMPLETED": tuning.Succeeded, "FAILED": tuning.Failed,
		"CANCELLED": tuning.Cancelled, "DELETING": tuning.Cancelled, "WRITING_RESULTS": tuning.Running,
		"VALIDATING":           tuning.Validating,
		"DELETING_CLEANING_UP": tuning.Cancelled, "PENDING": tuning.Queued, "EXPIRED": tuning.Failed,
		"RE_QUEUEING":            tuning.Queued,
		"CREATING_INPUT_DATASET": tuning.Validating, "IDLE": tuning.Queued, "CANCELLING": tuning.Running,
		"EARLY_STOPPED": tuning.Succeeded, "PAUSED": tuning.Paused,
	} {
		r, err := trainer{}.Poll(t.Context(), polled(t, supervisedJobs, `"state":"JOB_STATE_`+state+
			`","outputModel":"x","status":{"code":"INVALID_ARGUMENT","message":"Line 3 is bad."}`), supervisedJobs+"/mg-1")
		require.NoError(t, err)
		require.Equal(t, want, r.Status, state)
		require.Equal(t, want == tuning.Succeeded, r.Model != "")
		require.Equal(t, want == tuning.Failed, r.Error != nil)
		if r.Error != nil {
			require.Equal(t, provider.TuningError{Code: "invalid_training_file", Message: "Line 3 is bad.",
				Param: "training_file"}, *r.Error)
		}
	}
	_, err := trainer{}.Poll(t.Context(), polled(t, supervisedJobs, `"state":"JOB_STATE_DAYDREAMING"`), supervisedJobs+
		"/mg-1")
	require.ErrorContains(t, err, "DAYDREAMING")
	_, err = trainer{}.Poll(t.Context(), polled(t, supervisedJobs, `"state":"JOB_STATE_RUNNING"`), "models/x")
	require.ErrorContains(t, err, "is not a fine-tuning job")
}

func TestCancellingAndDeleting(t *testing.T) {
	for state, over := range map[string]bool{"COMPLETED": true, "RUNNING": false} {
		mux := http.NewServeMux()
		mux.HandleFunc("POST "+ofAccount+"supervisedFineTuningJobs/{id}", func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "mg-1:cancel", r.PathValue("id"))
			w.WriteHeader(http.StatusBadRequest)
			tuningtest.JSON(w, `{"code":9,"message":"job is not running"}`)
		})
		mux.HandleFunc("GET "+ofAccount+"supervisedFineTuningJobs/mg-1",
			func(w http.ResponseWriter, _ *http.Request) { tuningtest.JSON(w, `{"state":"JOB_STATE_`+state+`"}`) })
		mux.HandleFunc("DELETE "+ofAccount+"models/{id}", func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("id") != "mg-x" {
				w.WriteHeader(http.StatusNotFound)
			}
			tuningtest.JSON(w, `{}`)
		})
		c := client(t, mux)
		require.Equal(t, over, trainer{}.Cancel(t.Context(), c, supervisedJobs+"/mg-1") == nil, state)
		require.NoError(t, trainer{}.DeleteModel(t.Context(), c, "accounts/acme/models/mg-x"))
		require.NoError(t, trainer{}.DeleteModel(t.Context(), c, "accounts/acme/models/gone"))
		require.True(t, tuning.Final(trainer{}.DeleteModel(t.Context(), c, "accounts/fireworks/models/llama")),
			"that of somebody else")
	}
}
