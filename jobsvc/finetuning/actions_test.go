package finetuning_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/finetuning"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// stalled has one kind of call wait, and returns what tells of the first that does and what lets all go on.
func (f *trainer) stalled(call string) (waiting <-chan struct{}, release func()) {
	entered, gate := make(chan struct{}, 1), make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.around = func(now string, effect func() error) error {
		if now == call {
			select {
			case entered <- struct{}{}:
			default:
			}
			<-gate
		}
		return effect()
	}
	return entered, func() { close(gate) }
}

func (w *world) cancel(id string) (int, string) {
	return w.ask(acme, "POST", "/v1/fine_tuning/jobs/"+id+"/cancel", "")
}

func (w *world) requireCancelled(id string) {
	w.await(id, over)
	j := w.get(id)
	require.Equal(w.t, "cancelled", j.Status)
	require.NotNil(w.t, j.FinishedAt)
	require.Nil(w.t, j.FineTunedModel)
	require.Nil(w.t, j.Error)
	messages := w.messages(id)
	require.Equal(w.t, "The job was cancelled", messages[len(messages)-1])
	require.Equal(w.t, 1, w.keys("announced/"+id+"/fine_tuning.job.cancelled/"))
	require.Zero(w.t, w.keys(store.Root+"queue/fine_tuning/"))
	require.Zero(w.t, w.keys(store.Root+"uses/"))
	status, body := w.cancel(id)
	require.Equal(w.t, http.StatusBadRequest, status)
	require.JSONEq(w.t, `{"error":{"message":"Job has already completed: `+id+
		`","type":"invalid_request_error","param":null,"code":null}}`, body)
}

func TestCancelBeforeAnybodyHasBegunIsAtOnce(t *testing.T) {
	w := newWorld(t)
	id := w.create("")
	status, body := w.cancel(id)
	require.Equal(t, 200, status)
	require.Contains(t, body, `"status":"cancelled"`)
	w.requireCancelled(id)
	w.run()
	w.requireCancelled(id)
	require.Empty(t, w.trainer.jobs)
}

func TestCancelDuringTheUploadCreatesNothingAtTheProvider(t *testing.T) {
	w := newWorld(t)
	id := w.create("")
	waiting, release := w.trainer.stalled("upload")
	stop := w.run()
	<-waiting
	status, _ := w.cancel(id)
	require.Equal(t, 200, status)
	release()
	w.requireCancelled(id)
	stop()
	require.Empty(t, w.trainer.jobs)
}

func TestCancelDuringTheCreationIsCarriedOutOnceTheJobIsKnown(t *testing.T) {
	w := newWorld(t)
	id := w.create("")
	waiting, release := w.trainer.stalled("create")
	stop := w.run()
	<-waiting
	status, body := w.cancel(id)
	require.Equal(t, 200, status)
	require.Contains(t, body, `"status":"validating_files"`, "the provider has not said that it stopped")
	status, _ = w.cancel(id)
	require.Equal(t, 200, status, "again")
	release()
	w.requireCancelled(id)
	stop()
	require.Len(t, w.trainer.jobs, 1)
	require.Equal(t, []string{"cancel"}, w.trainer.asked)
}

func TestCancelOfARunningJobIsAskedOfTheProvider(t *testing.T) {
	w := newWorld(t)
	id := w.create("")
	stop := w.run()
	w.await(id, func(j *finetuning.Job) bool { return j.Status == job.TuningRunning })
	w.trainer.fail("cancel", errDown, errDown, errAnswerLost)
	status, _ := w.cancel(id)
	require.Equal(t, 200, status)
	w.requireCancelled(id)
	stop()
	require.Equal(t, []string{"cancel", "cancel"}, w.trainer.asked, "the first answer was lost")
}

func TestACancelThatComesTooLateLeavesTheSuccess(t *testing.T) {
	w := newWorld(t)
	id := w.create("")
	stop := w.run()
	w.await(id, func(j *finetuning.Job) bool { return j.Status == job.TuningRunning })
	w.trainer.fail("cancel", refused(400, "The job is done."))
	status, _ := w.cancel(id)
	require.Equal(t, 200, status)
	w.await(id, func(j *finetuning.Job) bool { return j.Ask == "" })
	w.trainer.says(success()[3])
	w.await(id, over)
	stop()
	require.Equal(t, "succeeded", w.get(id).Status)
	require.Contains(t, w.messages(id), "warn: The provider refused to cancel the job: The job is done.")
}

func TestPauseAndResumeAreTheProvidersToCarryOut(t *testing.T) {
	w := newWorld(t)
	id := w.create("")
	path := "/v1/fine_tuning/jobs/" + id
	stop := w.run()
	w.await(id, func(j *finetuning.Job) bool { return j.Status == job.TuningRunning })
	status, body := w.ask(acme, "POST", path+"/resume", "")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "its status is 'running'")

	status, body = w.ask(acme, "POST", path+"/pause", "")
	require.Equal(t, 200, status)
	require.Contains(t, body, `"status":"running"`)
	w.await(id, func(j *finetuning.Job) bool { return j.Ask == "" })
	w.trainer.says(provider.TuningReport{Status: "paused"})
	w.await(id, func(j *finetuning.Job) bool { return j.Status == job.TuningPaused })
	require.Equal(t, http.StatusBadRequest, first(w.ask(acme, "POST", path+"/pause", "")))

	require.Equal(t, 200, first(w.ask(acme, "POST", path+"/resume", "")))
	w.await(id, func(j *finetuning.Job) bool { return j.Ask == "" })
	w.trainer.says(provider.TuningReport{Status: "running"})
	w.await(id, func(j *finetuning.Job) bool { return j.Status == job.TuningRunning })
	stop()
	require.Equal(t, []string{"pause", "resume"}, w.trainer.asked)

	require.Equal(t, 200, first(w.cancel(id)))
	status, body = w.ask(acme, "POST", path+"/pause", "")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "it is being cancelled")
}

func TestPauseIsRefusedWhereTheProviderCannot(t *testing.T) {
	w := newWorld(t)
	file := w.upload(acme, "fine-tune", "{}")
	_, body := w.ask(acme, "POST", "/v1/fine_tuning/jobs", `{"model":"plain/m","training_file":"`+file+`"}`)
	path := "/v1/fine_tuning/jobs/" + idOf(t, body)
	for _, action := range []string{"/pause", "/resume"} {
		status, body := w.ask(acme, "POST", path+action, "")
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, "its provider 'plain' can neither pause nor resume jobs")
		require.Contains(t, body, `"code":"unsupported_operation"`)
	}
}

func TestAWorkerThatHasLostItsClaimWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.trainer.says(success()...)
	id := w.create(`,"suffix":"shop"`)
	waiting, release := w.trainer.stalled("upload")
	stop := w.run()
	<-waiting
	w.trainer.mu.Lock()
	w.trainer.around = func(_ string, effect func() error) error { return effect() }
	w.trainer.mu.Unlock()
	// Its claim goes, as it does when its lease ends, and another replica takes the job up.
	_, err := w.etcd.Delete(t.Context(), store.Root+"claims/fine_tuning/"+id)
	require.NoError(t, err)
	w.trainer.says(provider.TuningReport{Status: "running"})
	w.run()
	taken := w.await(id, func(j *finetuning.Job) bool { return j.Status == job.TuningRunning })
	release()
	stop()
	after := w.await(id, func(*finetuning.Job) bool { return true })
	require.Equal(t, taken.Value.Remote, after.Value.Remote)
	require.Len(t, w.trainer.uploads, 2)
	w.trainer.says(success()...)
	w.await(id, over)
	w.requireSuccess(id)
}

func first(status int, _ string) int { return status }

func TestManyJobsAreWorkedOnByTwoReplicas(t *testing.T) {
	w := newWorld(t)
	w.trainer.says(provider.TuningReport{Status: "succeeded", Model: "tuned-2"})
	var ids []string
	for range 60 {
		ids = append(ids, w.create(""))
	}
	w.run()
	w.run()
	for _, id := range ids {
		w.await(id, over)
		require.Equal(t, 1, w.keys("announced/"+id+"/"))
	}
	require.Len(t, w.trainer.jobs, 60)
	require.Len(t, slices.Compact(w.models()), 60)
}
