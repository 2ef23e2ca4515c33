package azure

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/tuning"
	"github.com/modelgate/modelgate/internal/provider/tuning/tuningtest"
)

// The answers here are those of Azure's reference: https://learn.microsoft.com/rest/api/azureopenai.

const resource = "https://r.openai.azure.com"

func TestTuningSurvivesAVendorThatFails(t *testing.T) {
	tuningtest.Failures(t, Provider(), &configv1.Provider{Name: "azure", Endpoint: resource},
		provider.TuningJob{ID: "ftjob-1", Model: "m", TrainingFile: "file-1"}, "ftjob-abc")
}

func TestATrainingFileIsStreamed(t *testing.T) {
	tuningtest.Streams(t, Provider(), &configv1.Provider{Name: "azure", Endpoint: resource},
		func(w http.ResponseWriter, _ *http.Request) {
			tuningtest.JSON(w, `{"id":"file-abc","status":"pending"}`)
		})
}

func TestWhereJobsAre(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint, version, want string
		metadata                bool
	}{
		"v1":                        {resource + "/openai/v1/", "", "/openai/v1", true},
		"v1, not written":           {resource, "", "/openai/v1", true},
		"v1, half written":          {resource + "/openai", "", "/openai/v1", true},
		"v1 with a version":         {resource + "/openai/v1", "preview", "/openai/v1?preview", true},
		"deployments":               {resource, "2024-10-21", "/openai?2024-10-21", false},
		"deployments, half written": {resource + "/openai/", "2024-10-21", "/openai?2024-10-21", false},
	} {
		t.Run(name, func(t *testing.T) {
			where := ""
			mux := http.NewServeMux()
			for _, root := range []string{"/openai", "/openai/v1"} {
				mux.HandleFunc("GET "+root+"/files/file-1", func(w http.ResponseWriter, _ *http.Request) {
					tuningtest.JSON(w, `{"id":"file-1","status":"processed"}`)
				})
				mux.HandleFunc("POST "+root+"/fine_tuning/jobs", func(w http.ResponseWriter, r *http.Request) {
					if where = root; r.URL.RawQuery != "" {
						where += "?" + r.FormValue("api-version")
					}
					body := tuningtest.Body(t, r)
					require.Equal(t, c.metadata, body["metadata"] != nil, "%v", body)
					require.Equal(t, c.metadata, body["method"] != nil, "%v", body)
					require.Equal(t, !c.metadata, body["hyperparameters"] != nil, "%v", body)
					w.WriteHeader(http.StatusCreated)
					tuningtest.JSON(w, `{"id":"ftjob-abc","status":"pending"}`)
				})
			}
			client := tuningtest.Client(t, Provider(), &configv1.Provider{Name: "azure", Endpoint: c.endpoint,
				ApiVersion: c.version}, mux)
			id, err := Provider().FineTuning.Create(t.Context(), client, provider.TuningJob{ID: "ours", Model: "gpt-4.1-mini",
				TrainingFile: "file-1",
				Method: provider.Method{Type: "supervised",
					Hyperparameters: provider.Hyperparameters{"n_epochs": []byte("2")}}})
			require.NoError(t, err)
			require.Equal(t, "ftjob-abc", id)
			require.Equal(t, c.want, where)
		})
	}
	client := tuningtest.Client(t, Provider(),
		&configv1.Provider{Name: "azure", Endpoint: "https://r.services.ai.azure.com/models"}, http.NotFoundHandler())
	_, err := Provider().FineTuning.Create(t.Context(), client, provider.TuningJob{TrainingFile: "file-1"})
	require.True(t, tuning.Final(err))
	require.ErrorContains(t, err, "does not train models")
}

func TestAJobWaitsForItsFiles(t *testing.T) {
	for status, final := range map[string]bool{"pending": false, "running": false, "error": true} {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /openai/v1/files/file-1", func(w http.ResponseWriter, _ *http.Request) {
			tuningtest.JSON(w, `{"id":"file-1","status":"`+status+`","status_details":"Line 3 is bad."}`)
		})
		client := tuningtest.Client(t, Provider(), &configv1.Provider{Name: "azure", Endpoint: resource}, mux)
		_, err := Provider().FineTuning.Create(t.Context(), client, provider.TuningJob{Model: "m", TrainingFile: "file-1"})
		require.Error(t, err, status)
		require.Equal(t, final, tuning.Final(err), "%s: %v", status, err)
		var e *openai.Error
		if final {
			require.ErrorAs(t, err, &e)
			require.Equal(t, "invalid_training_file", string(e.Code))
			require.Contains(t, e.Message, "Line 3 is bad.")
		}
	}
}

func TestAModelThatWasMadeHasToBeDeployed(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openai/v1/fine_tuning/jobs/ftjob-abc", func(w http.ResponseWriter, _ *http.Request) {
		tuningtest.JSON(w,
			`{"object":"fine_tuning.job","id":"ftjob-abc","status":"succeeded","created_at":1,"finished_at":1692661190,"fine_tuned_model":"gpt-4.1-mini-2025-04-14.ft-b044"}`)
	})
	mux.HandleFunc("GET /openai/v1/fine_tuning/jobs/ftjob-abc/events", func(w http.ResponseWriter, _ *http.Request) {
		tuningtest.JSON(w,
			`{"object":"list","data":[{"id":"ftevent-1","created_at":1692661189,"level":"info","message":"Job succeeded.","type":"message"}],"has_more":false}`)
	})
	// which has no checkpoints
	client := tuningtest.Client(t, Provider(), &configv1.Provider{Name: "azure", Endpoint: resource}, mux)
	r, err := Provider().FineTuning.Poll(t.Context(), client, "ftjob-abc")
	require.NoError(t, err)
	require.Equal(t, tuning.Succeeded, r.Status)
	require.Equal(t, "gpt-4.1-mini-2025-04-14.ft-b044", r.Model)
	require.Empty(t, r.Checkpoints)
	require.Len(t, r.Events, 2)
	require.Equal(t, "warn", r.Events[1].Level)
	require.Equal(t, int64(1692661190), r.Events[1].CreatedAt)
	require.Contains(t, r.Events[1].Message, "only once somebody has deployed it")
}
