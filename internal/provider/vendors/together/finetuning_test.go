package together

import (
	"encoding/json"
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

// The answers here are made by the schemas and examples of Together's OpenAPI document.

var config = &configv1.Provider{Name: "together", Vendor: "together"}

func client(t *testing.T, h http.Handler) *provider.Client {
	return tuningtest.Client(t, Provider(), config, h)
}

func TestTuningSurvivesAVendorThatFails(t *testing.T) {
	tuningtest.Failures(t, Provider(), config, provider.TuningJob{ID: "ftjob-1", Model: "m", TrainingFile: "file-1"},
		"ft-1")
}

func TestATrainingFileIsStreamed(t *testing.T) {
	tuningtest.Streams(t, Provider(), config,
		func(w http.ResponseWriter, _ *http.Request) { tuningtest.JSON(w, `{"id":"file-1"}`) })
}

func TestATrainingFileIsUploaded(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/files/upload", func(w http.ResponseWriter, r *http.Request) {
		fields, name, text := tuningtest.Form(t, r)
		require.Equal(t, map[string]string{"purpose": "fine-tune", "file_name": "data.txt.jsonl", "file_type": "jsonl"},
			fields)
		require.Equal(t, "data.txt.jsonl", name)
		require.Equal(t, "{}\n", text)
		tuningtest.JSON(w,
			`{"id":"file-1","object":"file","created_at":1,"filename":"data.txt.jsonl","bytes":3,"purpose":"fine-tune","FileType":"jsonl","Processed":false}`)
	})
	id, err := trainer{}.Upload(t.Context(), client(t, mux), tuningtest.File("data.txt", "{}\n"))
	require.NoError(t, err)
	require.Equal(t, "file-1", id)
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
		"the least": {provider.TuningJob{}, `{"training_method":{"method":"sft","train_on_inputs":"auto"}}`, ""},
		"all there is": {provider.TuningJob{ValidationFile: "file-2", Suffix: "mine", Seed: &seed,
			Integrations: json.RawMessage(`[{"type":"wandb","wandb":{"project":"p","name":"n","entity":"e"}}]`),
			Method: provider.Method{Type: "supervised",
				Hyperparameters: provider.Hyperparameters{"n_epochs": json.RawMessage("3"), "batch_size": json.RawMessage("8"),
					"learning_rate": json.RawMessage("1e-5")}}},
			`{"training_method":{"method":"sft","train_on_inputs":"auto"},"validation_file":"file-2","suffix":"mine","random_seed":7,"n_epochs":3,"batch_size":8,
			"learning_rate":1e-5,"wandb_project_name":"p","wandb_name":"n","wandb_entity":"e"}`, ""},
		"preferences": {provider.TuningJob{Method: provider.Method{Type: "dpo",
			Hyperparameters: provider.Hyperparameters{"beta": json.RawMessage("0.2"), "n_epochs": json.RawMessage("2")}}},
			`{"training_method":{"method":"dpo","dpo_beta":0.2},"n_epochs":2}`, ""},
		"auto is left out": {provider.TuningJob{Method: hyper("learning_rate_multiplier", `"auto"`)},
			`{"training_method":{"method":"sft","train_on_inputs":"auto"}}`, ""},
		"a multiplier of an unknown rate": {provider.TuningJob{Method: hyper("learning_rate_multiplier", "2")}, "",
			"method.supervised.hyperparameters.learning_rate_multiplier"},
		"a preference's parameter without one": {provider.TuningJob{Method: hyper("beta", "0.2")}, "",
			"method.supervised.hyperparameters.beta"},
		"reinforcement": {provider.TuningJob{Method: provider.Method{Type: "reinforcement"}}, "",
			"method.type"},
		"tags": {provider.TuningJob{
			Integrations: json.RawMessage(`[{"type":"wandb","wandb":{"project":"p","tags":["a"]}}]`)}, "",
			"integrations[0].wandb.tags"},
		"another integration": {provider.TuningJob{Integrations: json.RawMessage(`[{"type":"mlflow"}]`)},
			"", "integrations[0].type"},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("POST /v1/fine-tunes", func(w http.ResponseWriter, r *http.Request) {
				var want map[string]any
				require.NoError(t, json.Unmarshal([]byte(c.want), &want))
				want["model"], want["training_file"] = "meta-llama/Llama-3-8b", "file-1"
				require.Empty(t, cmp.Diff(want, tuningtest.Body(t, r)))
				tuningtest.JSON(w,
					`{"id":"ft-1","status":"pending","created_at":"2023-05-17T17:35:45.123Z","updated_at":"2023-05-17T18:46:23.456Z"}`)
			})
			c.job.Model, c.job.TrainingFile = "meta-llama/Llama-3-8b", "file-1"
			id, err := trainer{}.Create(t.Context(), client(t, mux), c.job)
			if c.param == "" {
				require.NoError(t, err)
				require.Equal(t, "ft-1", id)
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
	mux.HandleFunc("POST /v1/fine-tunes", func(http.ResponseWriter, *http.Request) {
		made.Add(1)
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("GET /v1/fine-tunes", func(w http.ResponseWriter, _ *http.Request) {
		tuningtest.JSON(w,
			`{"data":[{"id":"ft-2","status":"running","training_file":"file-2"},{"id":"ft-1","status":"pending","training_file":"file-1"}]}`)
	})
	c, job := client(t, mux), provider.TuningJob{Model: "m", TrainingFile: "file-1"}
	_, err := trainer{}.Create(t.Context(), c, job)
	require.Error(t, err)
	job.Again = true
	id, err := trainer{}.Create(t.Context(), c, job)
	require.NoError(t, err)
	require.Equal(t, "ft-1", id)
	require.Equal(t, int32(1), made.Load())
}

// polled serves one job in some status, with a log.
func polled(t *testing.T, job string) *provider.Client {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/fine-tunes/ft-1", func(w http.ResponseWriter, _ *http.Request) {
		tuningtest.JSON(w, `{"id":"ft-1","created_at":"2023-05-17T17:35:45.123Z","updated_at":"2023-05-17T18:46:23.456Z",`+
			job+`}`)
	})
	mux.HandleFunc("GET /v1/fine-tunes/ft-1/events", func(w http.ResponseWriter, _ *http.Request) {
		tuningtest.JSON(w, `{"data":[
			{"object":"fine-tune-event","created_at":"2023-05-17T17:35:46Z","level":"info","message":"Job started","type":"job_start","param_count":0,"token_count":0,"total_steps":0,"wandb_url":"","step":0,"checkpoint_path":"","model_path":"","training_offset":0,"hash":""},
			{"object":"fine-tune-event","created_at":"2023-05-17T17:36:46Z","level":null,"message":"Checkpoint saved","type":"checkpoint_save","param_count":0,"token_count":500,"total_steps":20,"wandb_url":"","step":10,"checkpoint_path":"x","model_path":"","training_offset":0,"hash":"h"},
			{"object":"fine-tune-event","created_at":"2023-05-17T17:37:46Z","level":"legacy_iwarning","message":"Slow","type":"warning","param_count":0,"token_count":0,"total_steps":0,"wandb_url":"","step":0,"checkpoint_path":"","model_path":"","training_offset":0,"hash":""},
			{"object":"fine-tune-event","created_at":"2023-05-17T17:38:46Z","level":"error","message":"Out of luck","type":"job_error","param_count":0,"token_count":0,"total_steps":0,"wandb_url":"","step":0,"checkpoint_path":"","model_path":"","training_offset":0,"hash":""}]}`)
	})
	mux.HandleFunc("GET /v1/fine-tunes/ft-1/checkpoints", func(w http.ResponseWriter, _ *http.Request) {
		tuningtest.JSON(w,
			`{"data":[{"step":10,"created_at":"2023-05-17T17:36:46Z","path":"x","checkpoint_type":"Intermediate"}]}`)
	})
	return client(t, mux)
}

func TestAJobIsReported(t *testing.T) {
	c := polled(t,
		`"status":"completed","model_output_name":"me/llama-mine-32162631","token_count":850000,"n_epochs":3,"batch_size":8,"learning_rate":1e-05,"wandb_project_name":"p"`)
	r, err := trainer{}.Poll(t.Context(), c, "ft-1")
	require.NoError(t, err)
	require.Equal(t, tuning.Succeeded, r.Status)
	require.Equal(t, "me/llama-mine-32162631", r.Model)
	require.Equal(t, int64(850000), *r.TrainedTokens)
	require.Equal(t, provider.Hyperparameters{"n_epochs": json.RawMessage("3"), "batch_size": json.RawMessage("8"),
		"learning_rate": json.RawMessage("1e-05")}, r.Hyperparameters)
	require.Equal(t, int64(10), r.Checkpoints[0].Step)
	require.Empty(t, r.Checkpoints[0].Model, "it cannot be called")
	var levels, messages []string
	ids := map[string]bool{}
	for _, e := range r.Events {
		levels, messages, ids[e.ID] = append(levels, e.Level), append(messages, e.Message), true
	}
	require.Equal(t, []string{"info", "info", "warn", "error", "warn", "warn"}, levels)
	require.Len(t, ids, 6)
	require.Equal(t, int64(1684345006), r.Events[1].CreatedAt)
	require.JSONEq(t, `{"step":10,"total_steps":20,"token_count":500,"type":"checkpoint_save"}`, string(r.Events[1].Data))
	require.Contains(t, messages[4], "only at a dedicated endpoint")
	require.Contains(t, messages[5], "Weights & Biases")
	again, err := trainer{}.Poll(t.Context(), c, "ft-1")
	require.NoError(t, err)
	require.Equal(t, r.Events, again.Events, "events keep their ids")
}

func TestStatesOfJobs(t *testing.T) {
	for status, want := range map[string]string{
		"pending": tuning.Queued, "queued": tuning.Queued, "running": tuning.Running, "compressing": tuning.Running,
		"uploading":        tuning.Running,
		"cancel_requested": tuning.Running, "cancelled": tuning.Cancelled, "error": tuning.Failed,
		"user_error": tuning.Failed, "completed": tuning.Succeeded,
	} {
		r, err := trainer{}.Poll(t.Context(), polled(t, `"status":"`+status+`","model_output_name":"me/x"`), "ft-1")
		require.NoError(t, err)
		require.Equal(t, want, r.Status)
		require.Equal(t, want == tuning.Succeeded, r.Model != "")
		require.Equal(t, want == tuning.Failed, r.Error != nil)
		if r.Error != nil {
			require.Equal(t, provider.TuningError{Code: "training_failed", Message: "Out of luck"}, *r.Error)
		}
	}
	_, err := trainer{}.Poll(t.Context(), polled(t, `"status":"daydreaming"`), "ft-1")
	require.ErrorContains(t, err, "daydreaming")
}

func TestCancellingAJobThatIsOverDoesNothing(t *testing.T) {
	for status, over := range map[string]bool{"completed": true, "running": false} {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/fine-tunes/ft-1/cancel",
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
		mux.HandleFunc("GET /v1/fine-tunes/ft-1", func(w http.ResponseWriter, _ *http.Request) {
			tuningtest.JSON(w, `{"id":"ft-1","status":"`+status+`"}`)
		})
		require.Equal(t, over, trainer{}.Cancel(t.Context(), client(t, mux), "ft-1") == nil, status)
	}
}
