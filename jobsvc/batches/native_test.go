package batches_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/gateway"
)

// A vendor is one with a batch API of its own, which answers each line when a test says.
type vendor struct {
	mu        sync.Mutex
	submitted []provider.Batch
	lines     map[int]string // requests, by line
	unheard   int            // answers to Submit that do not arrive
	refuse    error          // what Submit says
	polls     int
	report    provider.BatchReport
	pollErr   error
	cancelled int
	results   func(line int, request []byte) *provider.BatchAnswer // nil: not run
	broken    int                                                  // reads of results that break in the middle
}

func (v *vendor) Submit(ctx context.Context, _ *provider.Client, b provider.Batch) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.refuse != nil {
		return "", v.refuse
	}
	if b.Again && v.lines != nil {
		return "remote-1", nil
	}
	v.submitted = append(v.submitted, b)
	v.lines = map[int]string{}
	err := b.Each(ctx, func(line int, request []byte) error {
		v.lines[line] = string(request)
		return nil
	})
	if v.unheard > 0 {
		v.unheard--
		return "", errReset
	}
	return "remote-1", err
}

func (v *vendor) Poll(_ context.Context, _ *provider.Client, id string) (provider.BatchReport, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if id != "remote-1" {
		return provider.BatchReport{}, errors.New("another batch was meant")
	}
	v.polls++
	return v.report, v.pollErr
}

func (v *vendor) Results(ctx context.Context, _ *provider.Client, _ string, b provider.Batch,
	take func(provider.BatchAnswer) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var numbers []int
	for line := range v.lines {
		numbers = append(numbers, line)
	}
	rand.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	for i, line := range numbers {
		if v.broken > 0 && i == len(numbers)/2 {
			v.broken--
			return errReset
		}
		request, err := b.Request(ctx, line)
		if err != nil {
			return err
		}
		a := v.results(line, request)
		if a == nil {
			a = &provider.BatchAnswer{}
		}
		a.Line = line
		if err := take(*a); err != nil {
			return err
		}
	}
	return nil
}

func (v *vendor) Cancel(context.Context, *provider.Client, string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cancelled++
	return nil
}

func (v *vendor) set(change func(*vendor)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(v)
}

func answered(_ int, request []byte) *provider.BatchAnswer {
	return &provider.BatchAnswer{
		Status: 200, RequestID: "req_v", Body: []byte(`{"content":` + gjson.GetBytes(request, "messages.0.content").Raw +
			`}`),
		Usage: openai.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7},
	}
}

// nativeWorld is one whose model m is served by a provider with a batch API of its own.
func nativeWorld(t *testing.T) (*world, *vendor) {
	w := newWorld(t)
	v := &vendor{results: answered}
	p := &config.Provider{
		Config: &configv1.Provider{Name: "acme-ai", Vendor: "acme-ai", NativeBatches: true},
		Vendor: provider.Provider{Name: "acme-ai", Batches: v},
	}
	w.config = &config.Config{
		Providers: map[string]*config.Provider{"acme-ai": p},
		Models: map[string]*configv1.Model{"m": {Name: "m",
			Targets: []*configv1.Target{{Provider: "acme-ai", Model: "m-1"}}}},
	}
	w.asked.client = &provider.Client{Config: p.Config}
	w.asked.answer = func(context.Context, gateway.Ask, int) (*http.Response, error) {
		t.Error("a line was asked")
		return nil, errReset
	}
	return w, v
}

// Report 7.
func TestABatchOfABareModelNameRunsAtItsProvider(t *testing.T) {
	t.Parallel()
	w, v := nativeWorld(t)
	w.config.Models, w.asked.bare = nil, map[string]string{"m": "acme-ai/m"}
	v.report = provider.BatchReport{Over: true, Completed: 2}
	w.run(nil)
	b := w.over(w.create(requests(2)))
	require.Equal(t, "completed", b.status())
	require.Equal(t, "acme-ai/m", b.Get("model").String())
	require.Len(t, v.submitted, 1)
	require.Equal(t, "m", v.submitted[0].Target.Model)
}

func TestABatchRunsAtItsProvider(t *testing.T) {
	t.Parallel()
	w, v := nativeWorld(t)
	v.unheard = 1
	v.broken = 1
	w.run(nil)
	id := w.create(requests(40))
	b := w.until(id, func(b wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.polls > 0 })
	require.Equal(t, "in_progress", b.status())
	v.set(func(v *vendor) { v.report = provider.BatchReport{Completed: 7, Failed: 2} })
	b = w.until(id, func(b wire) bool { return b.Get("request_counts.completed").Int() == 7 })
	require.JSONEq(t, `{"total":40,"completed":7,"failed":2}`, b.Get("request_counts").Raw)
	require.NotContains(t, b.Raw, "remote-1")
	v.set(func(v *vendor) {
		v.report = provider.BatchReport{Over: true, Completed: 39, Failed: 1}
		v.results = func(line int, request []byte) *provider.BatchAnswer {
			if line == 5 {
				return &provider.BatchAnswer{Status: 400, Body: []byte("{\n\"error\":{\"message\":\"no\"}}")}
			}
			return answered(line, request)
		}
	})
	b = w.over(id)
	require.Equal(t, "completed", b.status())
	require.JSONEq(t, `{"total":40,"completed":39,"failed":1}`, b.Get("request_counts").Raw)
	require.EqualValues(t, 7*39, b.Get("usage.total_tokens").Int())
	output := w.file(b, "output_file_id")
	require.Len(t, output, 39)
	for name, line := range output {
		require.Equal(t, name, "a"+line.Get("response.body.content").String(), "each answer is at its own line")
		require.Equal(t, "req_v", line.Get("response.request_id").String())
	}
	require.Len(t, w.file(b, "error_file_id"), 1)
	require.Len(t, v.submitted, 1, "a submission that was not heard of is found again")
	require.Equal(t, id, v.submitted[0].ID)
	require.Equal(t, 40, v.submitted[0].Count)
	require.Equal(t, "m-1", v.submitted[0].Target.Model)
	require.Equal(t, chat, v.submitted[0].Endpoint)
	require.NotZero(t, v.submitted[0].Since)
}

func TestWhatAProviderDoesNotRunIsAskedLineByLine(t *testing.T) {
	t.Parallel()
	refused := openai.Code("no").On("", "This model has no batches.")
	for name, set := range map[string]func(*vendor){
		"the batch is refused at once": func(v *vendor) { v.refuse = refused },
		"the batch is refused later":   func(v *vendor) { v.report = provider.BatchReport{Over: true, Error: refused} },
		"the batch is not known":       func(v *vendor) { v.pollErr = &openai.Error{Status: 404, Message: "no such batch"} },
		"half of the lines are not run": func(v *vendor) {
			v.report.Over = true
			v.results = func(line int, request []byte) *provider.BatchAnswer {
				if line%2 == 0 {
					return nil
				}
				return answered(line, request)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, v := nativeWorld(t)
			set(v)
			w.asked.answer = fine
			w.run(nil)
			b := w.over(w.create(requests(20)))
			require.Equal(t, "completed", b.status())
			require.Len(t, w.file(b, "output_file_id"), 20)
			require.EqualValues(t, 140, b.Get("usage.total_tokens").Int())
			total, _ := w.asked.total()
			if name == "half of the lines are not run" {
				require.Equal(t, 10, total)
			} else {
				require.Equal(t, 20, total)
			}
		})
	}
}

func TestWhatAProviderMayBeRunningIsNotAskedAnew(t *testing.T) {
	t.Parallel()
	w, v := nativeWorld(t)
	v.pollErr = &openai.Error{Status: 401, Message: "the credential does not hold"}
	w.run(nil)
	id := w.create(requests(5))
	w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.polls > 1 })
	v.set(func(v *vendor) { v.pollErr, v.report.Over = nil, true })
	b := w.over(id)
	require.Equal(t, "completed", b.status())
	require.Len(t, w.file(b, "output_file_id"), 5)
}

func TestWhichBatchesRunAtTheirProvider(t *testing.T) {
	for name, set := range map[string]func(w *world, v *vendor) string{
		"the provider is not to": func(w *world, _ *vendor) string {
			w.config.Providers["acme-ai"].Config.NativeBatches = false
			return requests(2)
		},
		"the vendor cannot": func(w *world, _ *vendor) string {
			w.config.Providers["acme-ai"].Vendor.Batches = nil
			return requests(2)
		},
		"the lines differ": func(*world, *vendor) string {
			return requests(2) + `{"custom_id":"x","method":"POST","url":"/v1/chat/completions","body":{"model":"n"}}`
		},
		"a line refers to what the provider keeps": func(*world, *vendor) string { return requests(2) + referring },
		"a line may, by which of two members is read": func(*world, *vendor) string {
			return requests(2) + `{"custom_id":"x","method":"POST","url":"/v1/chat/completions","body":{"model":"m","user":"a","user":"b"}}`
		},
		"the model is not listed": func(w *world, _ *vendor) string { delete(w.config.Models, "m"); return requests(2) },
	} {
		t.Run(name, func(t *testing.T) {
			w, v := nativeWorld(t)
			text := set(w, v)
			w.asked.answer = fine
			w.run(nil)
			require.Equal(t, "completed", w.over(w.create(text)).status())
			require.Empty(t, v.submitted)
		})
	}
}

// referring is a line that refers to a file that a provider keeps.
const referring = `{"custom_id":"x","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[` +
	`{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]}}`

func TestALineRefersToWhatAProviderKeepsForItsOwnTenant(t *testing.T) {
	w, v := nativeWorld(t)
	w.config.Providers["acme-ai"].Config.SharedObjects = true
	v.report = provider.BatchReport{Over: true, Completed: 3}
	w.run(nil)
	require.Equal(t, "completed", w.over(w.create(requests(2)+referring)).status())
	require.Len(t, v.submitted, 1)
}

func TestAProvidersBatchIsStopped(t *testing.T) {
	t.Parallel()
	half := func(line int, request []byte) *provider.BatchAnswer {
		if line > 4 {
			return nil
		}
		return answered(line, request)
	}
	t.Run("by a cancel", func(t *testing.T) {
		w, v := nativeWorld(t)
		v.results = half
		w.run(nil)
		id := w.create(requests(10))
		w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.polls > 0 })
		require.Equal(t, http.StatusOK, w.call("POST", "/v1/batches/"+id+"/cancel", "").Code)
		w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.cancelled > 0 })
		require.Equal(t, "cancelling", w.get(id).status())
		v.set(func(v *vendor) { v.report.Over = true })
		b := w.over(id)
		require.Equal(t, "cancelled", b.status())
		require.EqualValues(t, 4, b.Get("request_counts.completed").Int())
		w.partial(b, 10, "batch_cancelled", cancelText)
		require.Equal(t, 1, v.cancelled)
	})
	t.Run("by a cancel while it waits long for the next look", func(t *testing.T) {
		w, v := nativeWorld(t)
		w.limits.Poll = time.Hour
		v.results = half
		w.run(nil)
		id := w.create(requests(10))
		w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return len(v.submitted) > 0 })
		v.set(func(v *vendor) { v.report.Over = true })
		require.Equal(t, http.StatusOK, w.call("POST", "/v1/batches/"+id+"/cancel", "").Code)
		b := w.over(id)
		require.Equal(t, "cancelled", b.status())
		w.partial(b, 10, "batch_cancelled", cancelText)
	})
	t.Run("by its expiry", func(t *testing.T) {
		w, v := nativeWorld(t)
		v.results = half
		w.run(nil)
		id := w.create(requests(10))
		w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.polls > 0 })
		w.expire(id)
		w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.cancelled > 0 })
		v.set(func(v *vendor) { v.report.Over = true })
		b := w.over(id)
		require.Equal(t, "expired", b.status())
		w.partial(b, 10, "batch_expired", expiryText)
	})
	t.Run("in vain: it is not waited for without end", func(t *testing.T) {
		w, v := nativeWorld(t)
		w.limits.Settle = time.Second
		w.run(nil)
		id := w.create(requests(10))
		w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.polls > 0 })
		v.set(func(v *vendor) { v.broken = 1000 })
		require.Equal(t, http.StatusOK, w.call("POST", "/v1/batches/"+id+"/cancel", "").Code)
		b := w.over(id)
		require.Equal(t, "cancelled", b.status())
		w.partial(b, 10, "batch_cancelled", cancelText)
	})
	t.Run("while the provider is away: nor is that waited for without end", func(t *testing.T) {
		w, v := nativeWorld(t)
		w.limits.Settle = time.Second
		w.run(nil)
		id := w.create(requests(10))
		w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.polls > 0 })
		v.set(func(v *vendor) { v.pollErr = errReset })
		w.expire(id)
		b := w.over(id)
		require.Equal(t, "expired", b.status())
		w.partial(b, 10, "batch_expired", expiryText)
	})
	t.Run("before it was submitted", func(t *testing.T) {
		w, v := nativeWorld(t)
		v.refuse = errReset
		w.run(nil)
		id := w.create(requests(10))
		w.until(id, func(b wire) bool { return b.status() == "in_progress" })
		require.Equal(t, http.StatusOK, w.call("POST", "/v1/batches/"+id+"/cancel", "").Code)
		v.set(func(v *vendor) { v.refuse = openai.BadRequest("", "no") })
		b := w.over(id)
		require.Equal(t, "cancelled", b.status())
		w.partial(b, 10, "batch_cancelled", cancelText)
	})
}

func TestAProvidersBatchOutlivesItsWorkers(t *testing.T) {
	t.Parallel()
	w, v := nativeWorld(t)
	kill := w.mortal()
	id := w.create(requests(200))
	w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.polls > 0 })
	for i := range 4 {
		next := w.mortal()
		kill()
		kill = next
		if i == 1 {
			v.set(func(v *vendor) { v.report.Over, v.broken = true, 2 })
		}
	}
	b := w.over(id)
	require.Equal(t, "completed", b.status())
	require.Len(t, w.file(b, "output_file_id"), 200)
	require.EqualValues(t, 1400, b.Get("usage.total_tokens").Int())
	require.Len(t, v.submitted, 1)
}

func TestAProvidersBatchWhoseInputIsGone(t *testing.T) {
	w, v := nativeWorld(t)
	w.run(nil)
	id := w.create(requests(10))
	w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.polls > 0 })
	require.NoError(t, w.bucket.Delete(t.Context(), files.BlobOf(w.get(id).Get("input_file_id").String())))
	v.set(func(v *vendor) { v.report.Over = true })
	b := w.over(id)
	require.Equal(t, "failed", b.status())
	require.Equal(t, "input_file_unavailable", b.Get("errors.data.0.code").String(), fmt.Sprint(b.Raw))
}
