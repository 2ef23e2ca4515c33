package finetuning_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/fakeprovider"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/tuning/tuningtest"
	"github.com/modelgate/modelgate/internal/provider/vendors/echo"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/finetuning"
	"github.com/modelgate/modelgate/jobsvc/job"
)

// echoWorld has the built-in provider besides.
func echoWorld(t *testing.T) *world {
	w := newWorld(t)
	p := &config.Provider{Config: &configv1.Provider{Name: "echo", Vendor: "echo", Endpoint: "http://localhost/v1"},
		Vendor: echo.Provider()}
	w.clients = map[string]*provider.Client{"echo": tuningtest.Client(t, p.Vendor, p.Config, fakeprovider.Handler())}
	w.configure(func(c *config.Config) { c.Providers["echo"] = p })
	return w
}

func (w *world) train(lines int, members string) string {
	line := `{"messages":[{"role":"user","content":"What is up?"},{"role":"assistant","content":"Arr, matey!"}]}` + "\n"
	file := w.upload(acme, files.PurposeFineTune, strings.Repeat(line, lines))
	status, body := w.ask(acme, "POST", "/v1/fine_tuning/jobs", `{"model":"echo/parrot","training_file":"`+file+`"`+
		members+`}`)
	require.Equal(w.t, 200, status, body)
	return idOf(w.t, body)
}

func TestTheBuiltInProviderTrains(t *testing.T) {
	t.Parallel()
	w := echoWorld(t)
	id := w.train(12, `,"suffix":"pirate"`)
	w.run()
	w.await(id, over)
	j := w.get(id)
	require.Equal(t, "succeeded", j.Status, "%+v", j.Error)
	require.Positive(t, *j.TrainedTokens)
	require.Len(t, j.ResultFiles, 1)
	require.Equal(t, 3.0, j.Hyperparameters["n_epochs"])
	require.Len(t, w.models(), 1+len(w.callable(id)))
	require.True(t, strings.HasPrefix(*j.FineTunedModel, "ft:echo/parrot:acme:pirate:"))

	messages := w.messages(id)
	require.Equal(t, "Created fine-tuning job: JOB", messages[0])
	require.Contains(t, messages[2], "This is a simulation")
	require.Equal(t, "The job has successfully completed", messages[len(messages)-1])
	seen := map[string]bool{}
	for _, m := range messages {
		m, _, _ = strings.Cut(m, ": ") // what it is about, which one of the two may leave out
		require.False(t, seen[m], "%q comes twice in %q", m, messages)
		seen[m] = true
	}
}

// callable returns the checkpoints of a job that have a name.
func (w *world) callable(id string) (names []string) {
	for _, c := range w.page("/v1/fine_tuning/jobs/" + id + "/checkpoints?limit=100").Data {
		if c.Model != "" {
			names = append(names, c.Model)
		}
	}
	return names
}

func TestTheBuiltInProviderRefusesAFileThatIsTooShort(t *testing.T) {
	t.Parallel()
	w := echoWorld(t)
	id := w.train(9, "")
	w.run()
	w.await(id, over)
	j := w.get(id)
	require.Equal(t, "failed", j.Status)
	require.Equal(t, "training_file", j.Error.Param)
	text, err := json.Marshal(j.Error)
	require.NoError(t, err)
	require.NotContains(t, string(text), "remote")
	require.Equal(t, 1, strings.Count(strings.Join(w.messages(id), "\n"), "must have at least"),
		"the reason is told once")
}

// Report 7.
func TestAJobThatHasJustBeenCreatedIsPaused(t *testing.T) {
	t.Parallel()
	w := echoWorld(t)
	id := w.train(12, "")
	status, body := w.ask(acme, "POST", "/v1/fine_tuning/jobs/"+id+"/pause", "")
	require.Equal(t, 200, status, body)
	w.run()
	w.await(id, func(j *finetuning.Job) bool { return j.Status == job.TuningPaused })
	require.Equal(t, 200, first(w.ask(acme, "POST", "/v1/fine_tuning/jobs/"+id+"/resume", "")))
	w.await(id, func(j *finetuning.Job) bool { return j.Status == job.TuningSucceeded })
}

func TestTheBuiltInProviderPausesResumesAndCancels(t *testing.T) {
	t.Parallel()
	w := echoWorld(t)
	id := w.train(12, "")
	w.run()
	is := func(status string) func(*finetuning.Job) bool {
		return func(j *finetuning.Job) bool { return string(j.Status) == status }
	}
	path := "/v1/fine_tuning/jobs/" + id
	w.await(id, is("running"))
	require.Equal(t, 200, first(w.ask(acme, "POST", path+"/pause", "")))
	w.await(id, is("paused"))
	require.Equal(t, 200, first(w.ask(acme, "POST", path+"/resume", "")))
	w.await(id, is("running"))
	require.Equal(t, 200, first(w.cancel(id)))
	w.requireCancelled(id)
	require.Equal(t, 1, strings.Count(strings.Join(w.messages(id), "\n"), "cancelled"), "the end is told once")
}
