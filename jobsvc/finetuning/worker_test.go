package finetuning_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/finetuning"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// success is what a provider reports of a job that goes well, newest events first.
func success() []provider.TuningReport {
	begun := []provider.TuningEvent{
		{ID: "e3", CreatedAt: 1700000003, Level: "info", Type: "metrics", Message: "Step 1",
			Data: json.RawMessage(`{"step":1,"train_loss":0.5}`)},
		{ID: "e2", CreatedAt: 1700000002, Level: "info", Type: "message", Message: "Started remote-job-1"},
		{ID: "e1", CreatedAt: 1700000001, Level: "info", Type: "message", Message: "Created fine-tuning job: remote-job-1"},
	}
	more := slices.Concat([]provider.TuningEvent{
		{ID: "e5", CreatedAt: 1700000005, Type: "message", Message: "The job has successfully completed"},
		{ID: "e4", CreatedAt: 1700000003, Type: "message", Message: "Step 1 is saved"},
	}, begun)
	checkpoints := []provider.TuningCheckpoint{
		{ID: "c1", CreatedAt: 1700000003, Model: "tuned-2:1", Step: 1, Metrics: json.RawMessage(`{"step":1}`)},
		{ID: "c2", CreatedAt: 1700000003, Step: 2},
	}
	return []provider.TuningReport{
		{Status: "queued"},
		{Status: "running", Events: begun, EstimatedFinish: number(1700009999)},
		{Status: "running", Events: begun},
		{Status: "succeeded", Model: "tuned-2", TrainedTokens: number(1234), Events: more, Checkpoints: checkpoints,
			Hyperparameters: provider.Hyperparameters{"n_epochs": json.RawMessage("3")},
			ResultFiles:     []string{"remote-result"}},
	}
}

// requireSuccess checks all that a job that went well leaves, each once.
func (w *world) requireSuccess(id string) {
	t := w.t
	j := w.get(id)
	require.Equal(t, "succeeded", j.Status)
	require.Equal(t, "ft:small:acme:shop:"+strings.ToLower(id[len(id)-10:]), *j.FineTunedModel)
	require.NotNil(t, j.FinishedAt)
	require.Equal(t, int64(1234), *j.TrainedTokens)
	require.Equal(t, 3.0, j.Hyperparameters["n_epochs"])
	require.Nil(t, j.Error)
	require.Equal(t, []string{
		*j.FineTunedModel + " -> tuned-2",
		*j.FineTunedModel + ":ckpt-step-1 -> tuned-2:1",
	}, w.models())

	require.Len(t, j.ResultFiles, 1)
	file, err := files.Kind.Get(t.Context(), w.store, acme, j.ResultFiles[0])
	require.NoError(t, err)
	require.Equal(t, files.PurposeFineTuneResults, file.Value.Purpose)
	content, err := w.bucket.ReadAll(t.Context(), files.BlobOf(file.ID))
	require.NoError(t, err)
	require.Equal(t, "step,loss\n1,0.5\nremote-result", string(content))
	require.Equal(t, int64(len(content)), file.Value.Bytes)
	all, _, err := files.Kind.List(t.Context(), w.store, acme, store.Page{Limit: 10},
		func(r *store.Record[files.File]) bool { return r.Value.Purpose == files.PurposeFineTuneResults })
	require.NoError(t, err)
	require.Len(t, all, 1, "one record of a result file")

	training := w.await(id, over).Value.Training.ID
	require.Equal(t, []string{
		"Created fine-tuning job: JOB", "Validating training file: " + training, "Started JOB", "Step 1", "Step 1 is saved",
		"New fine-tuned model created: " + *j.FineTunedModel, "The job has successfully completed",
	}, w.messages(id))
	checkpoints := w.page("/v1/fine_tuning/jobs/" + id + "/checkpoints").Data
	require.Len(t, checkpoints, 2)
	require.Equal(t, "", checkpoints[0].Model)
	require.Equal(t, *j.FineTunedModel+":ckpt-step-1", checkpoints[1].Model)

	require.Len(t, w.trainer.jobs, 1, "jobs at the provider")
	require.Equal(t, 1, w.keys("announced/"+id+"/fine_tuning.job.succeeded/"))
	require.Zero(t, w.keys(store.Root+"queue/fine_tuning/"))
	require.Zero(t, w.keys(store.Root+"uses/"))
}

func TestAJobIsTakenToItsEnd(t *testing.T) {
	w := newWorld(t)
	w.trainer.says(success()...)
	id := w.create(`,"suffix":"shop"`)
	w.run()
	w.await(id, over)
	w.requireSuccess(id)
	made := w.trainer.jobs["remote-job-1"]
	require.Equal(t, "small-1", made.Model)
	require.Nil(t, made.Method.Grader)
	require.Equal(t, id, made.ID)
	require.Equal(t, "{}\n", w.trainer.uploads[made.TrainingFile])
}

func TestAJobSucceedsOnceItsModelCanBeCalled(t *testing.T) {
	w := newWorld(t)
	w.trainer.says(success()[3])
	id := w.create(`,"suffix":"shop"`)
	name := "ft:small:acme:shop:" + strings.ToLower(id[len(id)-10:])
	w.hide(name, true)
	w.run()
	for range 3 { // it is looked for again and again, after it was made
		select {
		case looked := <-w.looked:
			require.Equal(t, name, looked)
		case <-time.After(patience):
			require.Fail(t, "nobody looks for the model")
		}
		require.False(t, w.await(id, func(*finetuning.Job) bool { return true }).Value.Status.Over())
		require.Contains(t, w.models(), name+" -> tuned-2")
	}
	w.hide(name, false)
	w.await(id, over)
	require.Equal(t, "succeeded", w.get(id).Status)
}

func TestAJobSucceedsThoughItsKeyIsGone(t *testing.T) {
	w := newWorld(t)
	w.trainer.says(success()[3])
	id := w.create("")
	w.hide("ft:small:acme::"+strings.ToLower(id[len(id)-10:]), true)
	s := w.service(w.store, w.objects)
	s.Appear = 10 * time.Millisecond
	run(t, s)
	w.await(id, over)
	require.Equal(t, "succeeded", w.get(id).Status)
}

func TestAFineTunedModelIsTrainedFurtherUnderTheNameOfItsFirstBase(t *testing.T) {
	w := newWorld(t)
	w.trainer.says(provider.TuningReport{Status: "succeeded", Model: "tuned-2"})
	file := w.upload(acme, files.PurposeFineTune, "{}")
	_, body := w.ask(acme, "POST", "/v1/fine_tuning/jobs",
		fmt.Sprintf(`{"model":"ft:small:acme::base","training_file":%q}`, file))
	var j seenJob
	require.NoError(t, json.Unmarshal([]byte(body), &j))
	w.run()
	w.await(j.ID, over)
	require.Equal(t, "tuned-1", w.trainer.jobs["remote-job-1"].Model)
	m, err := w.objects.Get(t.Context(), configv1.KindOf((*configv1.Model)(nil)), *w.get(j.ID).FineTunedModel)
	require.NoError(t, err)
	made := m.Object.(*configv1.Model)
	require.True(t, strings.HasPrefix(made.GetName(), "ft:small:acme::"), made.GetName())
	require.Equal(t, "small", made.GetFineTuned().GetBaseModel())
	require.Equal(t, j.ID, made.GetFineTuned().GetJob())
	require.Equal(t, [3]string{"acme", "shop", "acme"}, [3]string{made.GetOrganization(), made.GetProject(),
		made.GetOwnedBy()})
}

// A reaper kills a service at one of its steps: calls of the provider and transactions.
type reaper struct {
	mu     sync.Mutex
	at     int  // which step; 0: none
	effect bool // what the step does is done all the same
	steps  int
	dead   bool
	kill   func()
}

var errKilled = errors.New("killed")

func (r *reaper) step(do func() error) error {
	r.mu.Lock()
	r.steps++
	now := r.steps == r.at
	r.dead = r.dead || now
	dead := r.dead
	r.mu.Unlock()
	if !dead {
		return do()
	}
	if now && r.effect {
		_ = do() // nobody hears of it
	}
	r.kill()
	return errKilled
}

// A mortalKV is etcd as a process sees it that may be killed.
type mortalKV struct {
	clientv3.KV
	reaper *reaper
}

type mortalTxn struct {
	clientv3.Txn
	reaper *reaper
}

func (m mortalKV) Txn(ctx context.Context) clientv3.Txn { return mortalTxn{m.KV.Txn(ctx), m.reaper} }

func (m mortalTxn) If(c ...clientv3.Cmp) clientv3.Txn  { return mortalTxn{m.Txn.If(c...), m.reaper} }
func (m mortalTxn) Then(o ...clientv3.Op) clientv3.Txn { return mortalTxn{m.Txn.Then(o...), m.reaper} }

func (m mortalTxn) Commit() (r *clientv3.TxnResponse, err error) {
	err = m.reaper.step(func() (err error) { r, err = m.Txn.Commit(); return err })
	return r, err
}

// runMortal runs a service whose process the reaper may kill, and returns when it has ended.
func (w *world) runMortal(r *reaper, id string) {
	client := w.server.Client(w.t)
	client.KV = mortalKV{client.KV, r}
	w.trainer.mu.Lock()
	w.trainer.around = func(_ string, effect func() error) error { return r.step(effect) }
	w.trainer.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	r.kill = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.service(store.New(client), newObjects(client)).Run(ctx)
	}()
	for alive := true; alive; { // a run may take fewer steps than the one that was counted
		record, err := finetuning.Kind.Get(w.t.Context(), w.store, acme, id)
		require.NoError(w.t, err)
		if over(&record.Value) {
			cancel()
		}
		_, alive = <-finetuning.Kind.Watch(ctx, w.store, record)
	}
	<-done
	w.trainer.around = func(_ string, effect func() error) error { return effect() }
}

func TestAJobSurvivesAKillAtEveryStep(t *testing.T) {
	begin := func(t *testing.T) (*world, string) {
		w := newWorld(t)
		w.trainer.says(success()...)
		return w, w.create(`,"suffix":"shop"`)
	}
	count := &reaper{}
	w, id := begin(t)
	w.runMortal(count, id)
	w.requireSuccess(id)
	require.Greater(t, count.steps, 15)
	for at := 1; at <= count.steps; at++ {
		for _, effect := range []bool{false, true} {
			t.Run(fmt.Sprintf("step %d, done %t", at, effect), func(t *testing.T) {
				t.Parallel()
				w, id := begin(t)
				w.runMortal(&reaper{at: at, effect: effect}, id)
				w.run()
				w.await(id, over)
				w.requireSuccess(id)
			})
		}
	}
}

func TestAnAnswerThatIsLostDoesNotCreateAJobTwice(t *testing.T) {
	w := newWorld(t)
	w.trainer.says(success()...)
	w.trainer.fail("create", errAnswerLost, errDown)
	id := w.create(`,"suffix":"shop"`)
	w.run()
	w.await(id, over)
	w.requireSuccess(id)
}

func TestAProviderThatIsAwayIsWaitedForAndToldOfOnce(t *testing.T) {
	w := newWorld(t)
	w.trainer.says(success()...)
	w.trainer.fail("upload", slices.Repeat([]error{errDown}, 7)...)
	w.trainer.fail("poll", append([]error{nil}, slices.Repeat([]error{refused(503, "busy")}, 9)...)...)
	id := w.create("")
	w.run()
	w.await(id, over)
	require.Equal(t, "succeeded", w.get(id).Status)
	warnings, news := 0, 0
	for _, m := range w.messages(id) {
		if m == "warn: The provider 'trains' does not take the job further at the moment. It is asked again until it does." {
			warnings++
		}
		if m == "The provider 'trains' takes the job further again." {
			news++
		}
	}
	require.Equal(t, [2]int{2, 2}, [2]int{warnings, news})
}

func TestReadsGoOnWhileTheProviderIsAway(t *testing.T) {
	w := newWorld(t)
	id := w.create("")
	w.run()
	w.await(id, func(j *finetuning.Job) bool { return j.Status == job.TuningRunning })
	w.trainer.fail("poll", slices.Repeat([]error{errDown}, 1000)...)
	w.await(id, func(j *finetuning.Job) bool { return j.Outage != 0 })
	require.Equal(t, "running", w.get(id).Status)
	require.Len(t, w.messages(id), 3)
}

func TestWhatAProviderRefusesFails(t *testing.T) {
	for name, tc := range map[string]struct {
		script              func(*trainer)
		code, param, reason string
	}{
		"the file": {func(f *trainer) { f.fail("upload", refused(400, "Bad line 3 of the file.")) }, "invalid_request",
			"training_file", "Bad line 3 of the file."},
		"the job": {func(f *trainer) { f.fail("create", refused(422, "No such model for remote-file-1.")) },
			"invalid_request", "",
			"No such model for FILE."},
		"the training": {func(f *trainer) {
			f.says(provider.TuningReport{Status: "failed", Error: &provider.TuningError{Code: "invalid_n_examples",
				Message: "remote-job-1 needs 10 examples.", Param: "training_file"}})
		}, "invalid_n_examples", "training_file", "JOB needs 10 examples."},
		"without a reason": {func(f *trainer) { f.says(provider.TuningReport{Status: "failed"}) }, "training_failed", "",
			"The provider does not say why the job failed."},
		"a lost job": {func(f *trainer) { f.fail("poll", slices.Repeat([]error{refused(404, "not found")}, 8)...) },
			"job_lost", "",
			"The provider 'trains' does not know the job any more."},
		"a success without a model": {func(f *trainer) { f.says(provider.TuningReport{Status: "succeeded"}) }, "no_model",
			"",
			"the provider 'trains' says that the job has succeeded, but names no model"},
		"a model that cannot be configured": {func(f *trainer) {
			f.says(provider.TuningReport{Status: "succeeded",
				Model: "a\nb"})
		}, "invalid_model", "",
			"The model that was made cannot be configured: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tc.script(w.trainer)
			id := w.create("")
			w.run()
			file := w.await(id, over).Value.Training.ID
			j := w.get(id)
			require.Equal(t, "failed", j.Status)
			require.Nil(t, j.FineTunedModel)
			require.NotNil(t, j.Error)
			require.Equal(t, tc.code, j.Error.Code)
			require.Equal(t, tc.param, j.Error.Param)
			reason := strings.NewReplacer(id, "JOB", file, "FILE").Replace(j.Error.Message)
			require.True(t, strings.HasPrefix(reason, tc.reason), reason)
			messages := w.messages(id)
			require.True(t, strings.HasPrefix(messages[len(messages)-1], "error: The job failed: "), messages)
			require.Equal(t, 1, w.keys("announced/"+id+"/fine_tuning.job.failed/"))
			require.Zero(t, w.keys(store.Root+"queue/fine_tuning/"))
			require.Zero(t, w.keys(store.Root+"uses/"))
			require.Empty(t, w.models())
		})
	}
}

func TestAJobWhoseFileIsGoneFails(t *testing.T) {
	w := newWorld(t)
	id := w.create("")
	file := w.await(id, func(*finetuning.Job) bool { return true }).Value.Training.ID
	require.NoError(t, w.bucket.Delete(t.Context(), files.BlobOf(file)))
	w.run()
	w.await(id, over)
	require.Equal(t, "invalid_training_file", w.get(id).Error.Code)
	require.Empty(t, w.trainer.uploads)
}

func TestASeedThatTheProviderDoesNotTakeIsLeftOutUnlessTheClientGaveIt(t *testing.T) {
	noSeed := openai.Unsupported("seed", "trains")
	for name, tc := range map[string]struct{ members, status string }{
		"ours":         {"", "succeeded"},
		"the client's": {`,"seed":7`, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.trainer.says(provider.TuningReport{Status: "succeeded", Model: "tuned-2"})
			w.trainer.fail("create", noSeed)
			id := w.create(tc.members)
			w.run()
			w.await(id, over)
			require.Equal(t, tc.status, w.get(id).Status)
			if made, ok := w.trainer.jobs["remote-job-1"]; ok {
				require.Nil(t, made.Seed)
			}
		})
	}
}

func TestAResultFileThatCannotBeReadDoesNotHoldTheModelUp(t *testing.T) {
	w := newWorld(t)
	w.trainer.says(success()...)
	w.trainer.fail("result", slices.Repeat([]error{refused(http.StatusNotFound, "gone")}, 8)...)
	id := w.create("")
	w.run()
	w.await(id, over)
	j := w.get(id)
	require.Equal(t, "succeeded", j.Status)
	require.Empty(t, j.ResultFiles)
	require.Contains(t, w.messages(id),
		"warn: A result file could not be read from the provider. The job goes on without it.")
}

func TestAJobWaitsForAProviderThatIsNotConfigured(t *testing.T) {
	w := newWorld(t)
	w.trainer.says(provider.TuningReport{Status: "running"})
	id := w.create("")
	w.run()
	w.await(id, func(j *finetuning.Job) bool { return j.Status == job.TuningRunning })
	w.configure(func(c *config.Config) { delete(c.Providers, "trains") })
	w.await(id, func(j *finetuning.Job) bool { return j.Outage != 0 })
	require.Equal(t, "running", w.get(id).Status)
	w.configure(func(*config.Config) {})
	w.await(id, func(j *finetuning.Job) bool { return j.Outage == 0 })
	w.configure(func(c *config.Config) { delete(c.Providers, "trains") })
	w.await(id, func(j *finetuning.Job) bool { return j.Outage != 0 })
	status, _ := w.ask(acme, "POST", "/v1/fine_tuning/jobs/"+id+"/cancel", "")
	require.Equal(t, 200, status)
	w.await(id, over)
	require.Equal(t, "cancelled", w.get(id).Status)
	require.Empty(t, w.trainer.asked, "the provider could not be told")
}

func TestTheLogOfAJobIsBounded(t *testing.T) {
	w := newWorld(t)
	var events []provider.TuningEvent
	for i := range 300 {
		events = append(events, provider.TuningEvent{ID: fmt.Sprint(i), CreatedAt: 1700000000, Type: "message",
			Message: fmt.Sprintf("%03d %s", i, strings.Repeat("<", 5000)),
			Data:    json.RawMessage(`{"a":"` + strings.Repeat("<", 4000) + `"}`)})
	}
	w.trainer.says(provider.TuningReport{Status: "succeeded", Model: "tuned-2", Events: events})
	id := w.create("")
	w.run()
	w.await(id, over)
	messages := w.messages(id)
	require.Len(t, messages, 2+300+2)
	for i, m := range messages[2:302] {
		require.True(t, strings.HasPrefix(m, fmt.Sprintf("%03d <", i)), "events of one second keep their order")
		require.Len(t, m, 2<<10)
	}
}
