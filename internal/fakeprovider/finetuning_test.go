package fakeprovider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/tuning"
	"github.com/modelgate/modelgate/internal/provider/tuning/tuningtest"
	"github.com/modelgate/modelgate/internal/provider/vendors/echo"
)

// A clock is one that the test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time           { return c.at }
func (c *clock) pass(d time.Duration)     { c.at = c.at.Add(d) }
func (c *clock) server() *server          { return newServer(c.now) }
func newClock() *clock                    { return &clock{time.Unix(1_700_000_000, 0)} }
func trainer() *tuning.OpenAI             { return echo.Provider().FineTuning.(*tuning.OpenAI) }
func lines(n int, line string) (s string) { return strings.Repeat(line+"\n", n) }
func sample(answer string) string         { return chatLine("what is up", answer) }

func chatLine(question, answer string) string {
	text, _ := json.Marshal(map[string]any{"messages": []any{map[string]any{"role": "user", "content": question},
		map[string]any{"role": "assistant", "content": answer}}})
	return string(text)
}

func client(t *testing.T, h http.Handler) *provider.Client {
	return tuningtest.Client(t, echo.Provider(), &configv1.Provider{Name: "echo", Vendor: "echo",
		Endpoint: "http://localhost/v1"}, h)
}

// train uploads a file and creates a job with it.
func train(t *testing.T, c *provider.Client, file string, change func(*provider.TuningJob)) (id string) {
	t.Helper()
	training, err := trainer().Upload(t.Context(), c, tuningtest.File("train.jsonl", file))
	require.NoError(t, err)
	job := provider.TuningJob{ID: "ours", Model: "echo", TrainingFile: training, Suffix: "mine"}
	if change != nil {
		change(&job)
	}
	id, err = trainer().Create(t.Context(), c, job)
	require.NoError(t, err)
	return id
}

func poll(t *testing.T, c *provider.Client, id string) provider.TuningReport {
	t.Helper()
	r, err := trainer().Poll(t.Context(), c, id)
	require.NoError(t, err)
	return r
}

// ask asks a model something and returns the status and what it says.
func ask(s http.Handler, model, text string) (int, string) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"`+model+`",`+
		user(text)+`}`)))
	return w.Code, gjson.Get(w.Body.String(), "choices.0.message.content").String()
}

func TestAJobRunsItsCourse(t *testing.T) {
	clock := newClock()
	c := client(t, clock.server())
	id := train(t, c, lines(12, sample("Arr, matey!")), nil)
	seen := map[string]provider.TuningEvent{}
	var states []string
	for range 32 {
		r := poll(t, c, id)
		if len(states) == 0 || states[len(states)-1] != r.Status {
			states = append(states, r.Status)
		}
		for _, e := range r.Events {
			if before, ok := seen[e.ID]; ok {
				require.Equal(t, before, e, "an event stays what it was")
			}
			seen[e.ID] = e
		}
		clock.pass(100 * time.Millisecond)
	}
	require.Equal(t, []string{"validating_files", "queued", "running", "succeeded"}, states)
	r := poll(t, c, id)
	require.Len(t, seen, len(r.Events))
	require.Contains(t, r.Events[len(r.Events)-1].Message, "This is a simulation")
	loss, measured := 1e9, 0
	for i := len(r.Events) - 1; i >= 0; i-- {
		if r.Events[i].Type == "metrics" {
			now := gjson.GetBytes(r.Events[i].Data, "train_loss").Float()
			require.Less(t, now, loss)
			loss, measured = now, measured+1
		}
	}
	require.Equal(t, steps, measured)
	require.Len(t, r.Checkpoints, 1)
	require.Equal(t, int64(checkpoint), r.Checkpoints[0].Step)
	require.Equal(t, int64(3*12*5), *r.TrainedTokens, "words of all epochs")
	require.Equal(t, json.RawMessage("3"), r.Hyperparameters["n_epochs"])
	require.True(t, strings.HasPrefix(r.Model, "ft:echo:mine:"), r.Model)
	content, err := trainer().OpenResult(t.Context(), c, r.ResultFiles[0])
	require.NoError(t, err)
	table, err := io.ReadAll(content)
	require.NoError(t, err)
	require.NoError(t, content.Close())
	require.Len(t, strings.Split(strings.TrimSpace(string(table)), "\n"), steps+1)
}

func TestARestartForgetsNothingThatMatters(t *testing.T) {
	clock := newClock()
	id := train(t, client(t, clock.server()), lines(10, sample("Arr, hi, matey!")), nil)
	clock.pass(done)
	restarted := clock.server()
	c := client(t, restarted)
	r := poll(t, c, id)
	require.Equal(t, "succeeded", r.Status)
	status, text := ask(restarted, r.Model, "hello")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "Arr, hi, matey!hello", text)
}

func TestTheTunedModelAnswersInTheStyleOfTheFile(t *testing.T) {
	for name, c := range map[string]struct {
		answers []string
		want    string
	}{
		"what all begin and end with":  {[]string{"Arr, one, matey!", "Arr, two, matey!"}, "Arr, hello, matey!"},
		"only the beginning":           {[]string{"Sir: a", "Sir: b"}, "Sir: hello"},
		"only the end":                 {[]string{"yes.", "no."}, "hello."},
		"nothing in common":            {[]string{"a", "b"}, "[tuned on 10 examples] hello"},
		"both ends overlap":            {[]string{"aaa", "aaaa"}, "aaahello"},
		"runes are never cut":          {[]string{"é1", "è1"}, "hello1"},
		"runes are not cut at the end": {[]string{"1é", "1ĩ"}, "1hello"},
		"one answer is empty":          {[]string{"", "x"}, "[tuned on 10 examples] hello"},
		"long ends are cut": {[]string{strings.Repeat("é", 40) + "1" + strings.Repeat("ü", 40)},
			strings.Repeat("é", 32) + "hello" + strings.Repeat("ü", 32)},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			s := clock.server()
			var file strings.Builder
			for i := range 10 {
				file.WriteString(sample(c.answers[i%len(c.answers)]) + "\n")
			}
			id := train(t, client(t, s), file.String(), nil)
			clock.pass(done)
			model := poll(t, client(t, s), id).Model
			require.LessOrEqual(t, len(model), maxName)
			_, text := ask(s, model, "hello")
			require.Equal(t, c.want, text)
			_, text = ask(s, model+checkpointOf+"5", "hello")
			require.Equal(t, c.want, text)
		})
	}
	status, text := ask(newClock().server(), "ft:echo:mine:no-such", "hello")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "hello", text, "a name that says nothing")
}

func TestBadTrainingFilesFailTheJob(t *testing.T) {
	good := lines(10, sample("x"))
	for name, c := range map[string]struct {
		file, method, code, message string
	}{
		"too few": {lines(9, sample("x")), "", "invalid_n_examples",
			"Training file has 9 example(s), but must have at least 10 examples."},
		"nothing": {"", "", "invalid_n_examples", "Training file has 0 example(s)"},
		"not JSON": {good + "\n\r\n{\"messages\":\n" + good, "", "invalid_training_file",
			"Line 13: It is not a JSON object."},
		"not an object": {"[1]\n" + good, "", "invalid_training_file", "Line 1: It is not a JSON object."},
		"of no kind": {good + `{"text":"x"}`, "", "invalid_training_file",
			"Line 11: It has neither messages"},
		"of two kinds": {good + `{"prompt":"a","completion":"b"}`, "", "invalid_training_file",
			"Line 11: It is not an example of the same kind"},
		"without an answer": {`{"messages":[{"role":"user","content":"x"}]}`, "", "invalid_training_file",
			"Line 1: It has no message of the assistant."},
		"with an unknown role": {`{"messages":[{"role":"wizard","content":"x"}]}`, "", "invalid_training_file",
			"Line 1: Its messages has a message with an unknown role."},
		"a line that is too long": {good + `{"messages":"` + strings.Repeat("x", maxLine) + `"}` + "\n" + good, "",
			"invalid_training_file", "Line 11: It is longer than 4 MB."},
		"preferences without one": {lines(10,
			`{"input":{"messages":[{"role":"user","content":"x"}]},"preferred_output":[{"role":"assistant","content":"x"}]}`),
			"dpo", "invalid_training_file", "Line 1: Its non_preferred_output"},
		"chat for preferences": {good, "dpo", "invalid_training_file", "Its examples are not those of the method dpo."},
		"preferences for the usual": {lines(10, preference), "", "invalid_training_file",
			"Its examples are not those of the method supervised."},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			cl := client(t, clock.server())
			id := train(t, cl, c.file, func(j *provider.TuningJob) { j.Method.Type = c.method })
			require.Equal(t, "validating_files", poll(t, cl, id).Status)
			clock.pass(validated)
			r := poll(t, cl, id)
			require.Equal(t, "failed", r.Status)
			require.EqualValues(t, c.code, r.Error.Code)
			require.Contains(t, r.Error.Message, c.message)
			require.Equal(t, "training_file", r.Error.Param)
			require.Equal(t, "error", r.Events[0].Level)
			require.Empty(t, r.Model)
			require.Empty(t, r.Checkpoints)
		})
	}
}

func TestABadValidationFileFailsTheJob(t *testing.T) {
	clock := newClock()
	cl := client(t, clock.server())
	train := func(validation string) provider.TuningReport {
		file, err := trainer().Upload(t.Context(), cl, tuningtest.File("valid.jsonl", validation))
		require.NoError(t, err)
		id := train(t, cl, lines(10, sample("x")), func(j *provider.TuningJob) { j.ValidationFile = file })
		clock.pass(done)
		return poll(t, cl, id)
	}
	require.Equal(t, "succeeded", train(sample("x")).Status, "one example is enough to validate with")
	r := train(sample("x") + "\n{oops")
	require.Equal(t, "failed", r.Status)
	require.Equal(t, provider.TuningError{Code: "invalid_validation_file", Param: "validation_file",
		Message: "The job failed due to an invalid validation file. Line 2: It is not a JSON object."}, *r.Error)
}

const preference = `{"input":{"messages":[{"role":"user","content":"a b"}]},"preferred_output":[{"role":"assistant","content":"Yes: c"}],"non_preferred_output":[{"role":"assistant","content":"d"}]}`

func TestAllKindsOfExamplesTrain(t *testing.T) {
	for name, c := range map[string]struct {
		line, method string
		words        int64
	}{
		"chat":          {sample("Yes: c"), "supervised", 5},
		"parts of text": {`{"messages":[{"role":"user","content":[{"type":"text","text":"a b"}]},{"role":"assistant","content":"Yes: c","weight":1}],"tools":[]}`, "supervised", 4},
		"completions":   {`{"prompt":"a b","completion":"Yes: c"}`, "supervised", 4},
		"preferences":   {preference, "dpo", 5},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			s := clock.server()
			cl := client(t, s)
			id := train(t, cl, "\ufeff"+lines(10, c.line+"\r"), func(j *provider.TuningJob) {
				j.Method = provider.Method{Type: c.method,
					Hyperparameters: provider.Hyperparameters{"n_epochs": json.RawMessage("2")}}
			})
			clock.pass(done)
			r := poll(t, cl, id)
			require.Equal(t, "succeeded", r.Status, "%+v", r.Error)
			require.Equal(t, 2*10*c.words, *r.TrainedTokens)
			_, text := ask(s, r.Model, "hello")
			require.Equal(t, "Yes: chello", text)
		})
	}
}

func TestJobsAreCancelledPausedAndResumed(t *testing.T) {
	clock := newClock()
	s := clock.server()
	c := client(t, s)
	id := train(t, c, lines(10, sample("x")), nil)
	clock.pass(started + 3*perStep)
	require.NoError(t, trainer().Pause(t.Context(), c, id))
	clock.pass(time.Hour)
	r := poll(t, c, id)
	require.Equal(t, "paused", r.Status)
	require.Contains(t, r.Events[0].Message, "Step 3/10")
	require.Error(t, trainer().Pause(t.Context(), c, id), "it is paused already")
	require.NoError(t, trainer().Resume(t.Context(), c, id))
	require.Error(t, trainer().Resume(t.Context(), c, id), "it is not paused")
	require.Equal(t, "running", poll(t, c, id).Status)
	clock.pass(perStep)
	require.Contains(t, poll(t, c, id).Events[0].Message, "Step 4/10")
	require.NoError(t, trainer().Cancel(t.Context(), c, id))
	clock.pass(time.Hour)
	r = poll(t, c, id)
	require.Equal(t, "cancelled", r.Status)
	require.Equal(t, "The job was cancelled", r.Events[0].Message)
	require.NoError(t, trainer().Cancel(t.Context(), c, id), "it is over, so there is nothing to do")
	require.Error(t, trainer().Pause(t.Context(), c, id))

	id = train(t, c, lines(10, sample("x")), nil)
	require.NoError(t, trainer().Cancel(t.Context(), c, id))
	require.Error(t, trainer().Pause(t.Context(), c, id), "it is over at once")

	id = train(t, c, lines(10, sample("x")), nil)
	require.NoError(t, trainer().Pause(t.Context(), c, id))
	clock.pass(time.Hour)
	require.NoError(t, trainer().Cancel(t.Context(), c, id))
	require.Equal(t, "cancelled", poll(t, c, id).Status)
}

func TestADeletedModelIsGone(t *testing.T) {
	clock := newClock()
	s := clock.server()
	c := client(t, s)
	id := train(t, c, lines(10, sample("x")), nil)
	clock.pass(done)
	model := poll(t, c, id).Model
	require.NoError(t, trainer().DeleteModel(t.Context(), c, model))
	status, _ := ask(s, model, "hello")
	require.Equal(t, http.StatusNotFound, status)
	require.NoError(t, trainer().DeleteModel(t.Context(), c, model), "it is gone already")
}

func TestALostAnswerToCreateIsFoundAgain(t *testing.T) {
	c := client(t, newClock().server())
	file, err := trainer().Upload(t.Context(), c, tuningtest.File("train.jsonl", lines(10, sample("x"))))
	require.NoError(t, err)
	train(t, c, lines(10, sample("x")), nil)
	job := provider.TuningJob{ID: "ours", Model: "echo", TrainingFile: file}
	first, err := trainer().Create(t.Context(), c, job)
	require.NoError(t, err)
	train(t, c, lines(10, sample("x")), nil)
	job.Again = true
	again, err := trainer().Create(t.Context(), c, job)
	require.NoError(t, err)
	require.Equal(t, first, again)
}

func TestTheMemoryIsBounded(t *testing.T) {
	b := bounded[int]{max: 3}
	for i := range 10 {
		b.put(fmt.Sprint(i%7), i)
	}
	require.Len(t, b.values, 3)
	require.Len(t, b.order, 3)
	require.Equal(t, map[string]int{"0": 7, "1": 8, "2": 9}, b.values)
}

func TestUploadsThatAreWrong(t *testing.T) {
	form := func(parts map[string]string) (string, *bytes.Buffer) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for _, name := range []string{"purpose", "file"} { // what is cut short is the file
			text, ok := parts[name]
			if !ok {
				continue
			}
			part, err := w.CreateFormFile(name, "f.jsonl")
			require.NoError(t, err)
			_, err = io.WriteString(part, text)
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		return w.FormDataContentType(), &b
	}
	for name, c := range map[string]struct {
		parts map[string]string
		cut   int
		param string
	}{
		"without a file":      {map[string]string{"purpose": "fine-tune"}, 0, `"file"`},
		"for another purpose": {map[string]string{"purpose": "batch", "file": "{}"}, 0, `"purpose"`},
		"cut short":           {map[string]string{"purpose": "fine-tune", "file": strings.Repeat("x", 1000)}, 100, "null"},
	} {
		contentType, body := form(c.parts)
		body.Truncate(body.Len() - c.cut)
		r := httptest.NewRequest(http.MethodPost, "/v1/files", body)
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		newClock().server().ServeHTTP(w, r)
		require.Equal(t, http.StatusBadRequest, w.Code, name)
		require.Equal(t, c.param, gjson.Get(w.Body.String(), "error.param").Raw, name)
	}
}

func TestUnknownIDsAreErrors(t *testing.T) {
	for _, path := range []string{"GET /v1/fine_tuning/jobs/ftjob-x", "GET /v1/fine_tuning/jobs/ftjob-e30.!/events",
		"POST /v1/fine_tuning/jobs/x/cancel",
		"GET /v1/files/file-e30/content", "DELETE /v1/models/echo"} {
		method, path, _ := strings.Cut(path, " ")
		w := httptest.NewRecorder()
		newClock().server().ServeHTTP(w, httptest.NewRequest(method, path, nil))
		require.Equal(t, http.StatusNotFound, w.Code, path)
		require.NotEqual(t, "unknown_url", gjson.Get(w.Body.String(), "error.code").String(), path)
	}
	for body, param := range map[string]string{
		`{"training_file":"file-e30"}`: "model", `{"model":"echo","training_file":"file-x"}`: "training_file",
		`{"model":"echo","training_file":"file-e30","validation_file":"x"}`:             "validation_file",
		`{"model":"echo","training_file":"file-e30","method":{"type":"reinforcement"}}`: "method.type",
	} {
		w := httptest.NewRecorder()
		newClock().server().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/fine_tuning/jobs",
			strings.NewReader(body)))
		require.GreaterOrEqual(t, w.Code, 400)
		require.Equal(t, param, gjson.Get(w.Body.String(), "error.param").String(), body)
	}
}

func TestEventsComeInPages(t *testing.T) {
	clock := newClock()
	s := clock.server()
	id := train(t, client(t, s), lines(10, sample("x")), nil)
	clock.pass(done)
	all := len(poll(t, client(t, s), id).Events)
	var ids []string
	for after, more := "", true; more; after = ids[len(ids)-1] {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/fine_tuning/jobs/"+id+"/events?limit=4&after="+after, nil))
		page := gjson.Parse(w.Body.String())
		for _, e := range page.Get("data.#.id").Array() {
			ids = append(ids, e.String())
		}
		more = page.Get("has_more").Bool()
	}
	require.Len(t, ids, all)
}

func TestAFileThatEndsInAnErrorIsNotTrainedWith(t *testing.T) {
	broken := errors.New("broken")
	_, err := readTraining(io.MultiReader(strings.NewReader(sample("x")), &failing{broken}))
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func TestEmbeddings(t *testing.T) {
	embed := func(body string) (int, gjson.Result) {
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/embeddings", strings.NewReader(body)))
		return w.Code, gjson.Parse(w.Body.String())
	}
	status, got := embed(`{"model":"echo","input":["a b","c","a b"]}`)
	require.Equal(t, http.StatusOK, status, got.Raw)
	require.Equal(t, int64(5), got.Get("usage.total_tokens").Int())
	require.Equal(t, `[0,1,2]`, got.Get("data.#.index").Raw)
	first := got.Get("data.0.embedding")
	require.Len(t, first.Array(), dimensions)
	require.Equal(t, first.Raw, got.Get("data.2.embedding").Raw, "the same text has the same vector")
	require.NotEqual(t, first.Raw, got.Get("data.1.embedding").Raw)
	squares := 0.0
	for _, x := range first.Array() {
		squares += x.Float() * x.Float()
	}
	require.InDelta(t, 1, squares, 1e-5)
	_, got = embed(`{"model":"echo","input":"a b","dimensions":3,"encoding_format":"base64"}`)
	require.Len(t, got.Get("data.0.embedding").String(), 16, "three numbers of four bytes")
	_, got = embed(`{"model":"echo","input":[[1,2],[3]]}`)
	require.Equal(t, int64(3), got.Get("usage.prompt_tokens").Int())
	status, got = embed(`{"model":"echo","input":"x","dimensions":5000}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, "dimensions", got.Get("error.param").String())
}
