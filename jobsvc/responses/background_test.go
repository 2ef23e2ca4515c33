package responses_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/jobsvc/gateway"
)

func TestABackgroundResponseIsMadeLater(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	queued := r.create(`{"model":"m","input":"Hi","background":true,"metadata":{"a":"b"},"temperature":0.5}`)
	id := queued.Get("id").Str
	require.Equal(t, "queued", queued.Get("status").Str)
	require.True(t, queued.Get("background").Bool())
	require.Equal(t, 0.5, queued.Get("temperature").Num)
	require.Equal(t, "[]", queued.Get("output").Raw)
	got := r.ended(id)
	require.Equal(t, "completed", got.Get("status").Str)
	require.Equal(t, id, got.Get("id").Str)
	require.True(t, got.Get("background").Bool())
	require.Equal(t, "Hello", got.Get("output.1.content.0.text").Str)
	w.mu.Lock()
	require.Equal(t, id, w.asked[0].Charge, "it is charged once")
	w.mu.Unlock()
	next := r.create(`{"model":"m","previous_response_id":"` + id + `","input":"More"}`)
	require.Equal(t, "completed", next.Get("status").Str)
	require.Contains(t, r.do("POST", "/v1/responses/"+id+"/cancel", "").body, `"completed"`, "it has ended")
	require.Equal(t, int64(1), r.do("GET", "/v1/responses?limit=1", "").Get("data.#").Int())
}

// TestAStreamedBackgroundResponseIsResumed at any event, while it is made and after.
func TestAStreamedBackgroundResponseIsResumed(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	read, write := io.Pipe()
	w.answers(func(context.Context, gateway.Ask) (*http.Response, error) {
		return response(200, "text/event-stream", read), nil
	})
	go func() {
		_, _ = io.WriteString(write, beginning("Hel"))
		_, _ = io.WriteString(write, eventOf("response.completed", `"sequence_number":4,"response":`+responseOf("Hello")))
		_ = write.Close()
	}()
	whole := eventsOf(t, r.create(`{"model":"m","input":"Hi","background":true,"stream":true}`).body)
	want := []string{"created", "queued", "in_progress", "output_text.delta", "output_text.done", "completed"}
	require.Equal(t, want, namesOf(whole))
	id := whole[0].Get("response.id").Str
	for i, e := range whole {
		require.Equal(t, int64(i), e.Get("sequence_number").Int(), e.Raw)
		if e.Get("response").Exists() {
			require.Equal(t, id, e.Get("response.id").Str)
		}
		path := "/v1/responses/" + id + "?stream=true&starting_after=" + e.Get("sequence_number").Raw
		require.Equal(t, want[i+1:], append([]string{}, namesOf(eventsOf(t, r.do("GET", path, "").body))...))
	}
	again := eventsOf(t, r.do("GET", "/v1/responses/"+id+"?starting_after=2", `{"stream":true}`).body)
	require.Equal(t, want[3:], namesOf(again), "as OpenAI's SDK for Go asks")
	require.Equal(t, "queued", whole[1].Get("response.status").Str)
	require.Equal(t, whole[5].Get("response").Raw, r.do("GET", "/v1/responses/"+id, "").body)
	require.Equal(t, 400, r.do("GET", "/v1/responses/"+id+"?stream=true&starting_after=x", "").status)
}

// TestAKilledWorkerIsReplaced: the next one asks again, and whoever has seen events of the first answer is told.
func TestAKilledWorkerIsReplaced(t *testing.T) {
	w := newWorld(t)
	first := w.start()
	read, write := io.Pipe()
	var asks atomic.Int64
	w.answers(func(ctx context.Context, a gateway.Ask) (*http.Response, error) {
		if asks.Add(1) == 1 {
			context.AfterFunc(ctx, func() { _ = write.CloseWithError(ctx.Err()) })
			return response(200, "text/event-stream", read), nil
		}
		return says("Second")(ctx, a)
	})
	api := w.replica()
	follow := make(chan string, 1)
	go func() {
		follow <- api.do("POST", "/v1/responses", `{"model":"m","input":"Hi","background":true,"stream":true}`).body
	}()
	_, err := io.WriteString(write, beginning("First"))
	require.NoError(t, err)
	var id string
	require.Eventually(t, func() bool { // an event of the first answer is logged
		id = api.do("GET", "/v1/responses", "").Get("data.0.id").Str
		return w.logged(id) > 0
	}, patience, time.Millisecond)
	first.stop()
	w.start()
	events := eventsOf(t, <-follow)
	last := events[len(events)-1]
	require.Equal(t, "error", last.name)
	require.Contains(t, last.Get("message").Str, "being made again")
	got := api.ended(id)
	require.Equal(t, "Second", got.Get("output.1.content.0.text").Str)
	again := eventsOf(t, api.do("GET", "/v1/responses/"+id+"?stream=true", "").body)
	require.Equal(t, []string{"created", "queued", "in_progress", "output_text.delta", "output_text.done", "completed"},
		namesOf(again))
	for i := 1; i < len(again); i++ {
		require.Greater(t, again[i].Get("sequence_number").Int(), again[i-1].Get("sequence_number").Int())
	}
	require.Equal(t, "Second", again[3].Get("delta").Str)
	stale := api.do("GET", "/v1/responses/"+id+"?stream=true&starting_after=2", "")
	require.Equal(t, 400, stale.status)
	require.Contains(t, stale.body, "being made again")
}

// TestAnAnswerThatWasWrittenIsNotAskedForAgain: the worker dies, or etcd is away, before the record says so.
func TestAnAnswerThatWasWrittenIsNotAskedForAgain(t *testing.T) {
	w := newWorld(t)
	w.answers(func(ctx context.Context, a gateway.Ask) (*http.Response, error) {
		w.server.Stop() // the answer cannot be committed
		return says("Once")(ctx, a)
	})
	r := w.start()
	id := r.create(`{"model":"m","input":"Hi","background":true}`).Get("id").Str
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(w.blobs(), "\n"), "/answer-")
	}, patience, 5*time.Millisecond)
	w.server.Start(t)
	require.Equal(t, "Once", r.ended(id).Get("output.1.content.0.text").Str)
	_, asked := w.last()
	require.Equal(t, 1, asked)
}

func TestABackgroundResponseIsCancelledOrDeleted(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	begun, ended := make(chan string), make(chan error)
	w.answers(func(ctx context.Context, a gateway.Ask) (*http.Response, error) {
		begun <- a.Charge
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	})
	for _, end := range []func(id string) answered{
		func(id string) answered { return r.do("POST", "/v1/responses/"+id+"/cancel", "") },
		func(id string) answered { return r.do("DELETE", "/v1/responses/"+id, "") },
	} {
		id := r.create(`{"model":"m","input":"Hi","background":true}`).Get("id").Str
		require.Equal(t, id, <-begun)
		require.Equal(t, "in_progress", r.do("GET", "/v1/responses/"+id, "").Get("status").Str)
		got := end(id)
		require.Equal(t, 200, got.status, got.body)
		require.ErrorIs(t, <-ended, context.Canceled)
		if got.Get("deleted").Bool() {
			require.Equal(t, 404, r.do("GET", "/v1/responses/"+id, "").status)
			continue
		}
		require.Equal(t, "cancelled", got.Get("status").Str)
		require.Equal(t, "cancelled", r.do("POST", "/v1/responses/"+id+"/cancel", "").Get("status").Str)
		next := r.do("POST", "/v1/responses", `{"model":"m","previous_response_id":"`+id+`","input":"More"}`)
		require.Contains(t, next.body, "is cancelled and has no answer", "nothing can go on from it")
	}
}

// TestARefusedBackgroundResponseIsTriedAgain where that may help, and fails with the error otherwise.
func TestARefusedBackgroundResponseIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	refuse := func(status int, code string) (*http.Response, error) {
		return response(status, "application/json", strings.NewReader(`{"error":{"code":"`+code+`","message":"No."}}`)), nil
	}
	var asks atomic.Int64
	w.answers(func(ctx context.Context, a gateway.Ask) (*http.Response, error) {
		switch asks.Add(1) {
		case 1:
			return refuse(429, "rate_limit_exceeded")
		case 2:
			return refuse(503, "server_is_overloaded")
		case 3:
			return nil, errors.New("connection refused")
		}
		return says("Finally")(ctx, a)
	})
	got := r.ended(r.create(`{"model":"m","input":"Hi","background":true}`).Get("id").Str)
	require.Equal(t, "completed", got.Get("status").Str)
	for status, code := range map[int]string{400: "invalid_value", 401: "invalid_api_key", 429: "insufficient_quota"} {
		w.answers(func(context.Context, gateway.Ask) (*http.Response, error) { return refuse(status, code) })
		_, before := w.last()
		for _, stream := range []string{"", `"stream":true,`} {
			queued := r.create(`{"model":"m","input":"Hi",` + stream + `"background":true}`)
			id := gjson.Get(strings.TrimPrefix(queued.body, "event: response.created\ndata: "), "id").Str
			if stream != "" {
				all := eventsOf(t, queued.body)
				require.Equal(t, "response.failed", all[len(all)-1].name)
				id = all[0].Get("response.id").Str
			}
			got := r.ended(id)
			require.Equal(t, "failed", got.Get("status").Str)
			require.Equal(t, code, got.Get("error.code").Str)
			require.Equal(t, "No.", got.Get("error.message").Str)
		}
		_, after := w.last()
		require.Equal(t, before+2, after, code)
	}
}

func TestABackgroundResponseJoinsItsConversation(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	id := r.do("POST", "/v1/conversations", `{}`).Get("id").Str
	r.ended(r.create(`{"model":"m","conversation":"` + id + `","input":"Hi","background":true}`).Get("id").Str)
	require.Equal(t, int64(3), r.do("GET", "/v1/conversations/"+id+"/items", "").Get("data.#").Int())
	begun, open := make(chan struct{}), make(chan struct{})
	w.answers(func(ctx context.Context, a gateway.Ask) (*http.Response, error) {
		close(begun)
		<-open
		return says("Late")(ctx, a)
	})
	late := r.create(`{"model":"m","conversation":"` + id + `","input":"Hi","background":true}`).Get("id").Str
	<-begun
	r.do("DELETE", "/v1/conversations/"+id, "")
	close(open)
	require.Equal(t, "completed", r.ended(late).Get("status").Str, "the answer is kept without it")
}

// TestOneTenantDoesNotHoldUpAnother: each has turns of its own.
func TestOneTenantDoesNotHoldUpAnother(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	open := make(chan struct{})
	defer close(open)
	w.answers(func(ctx context.Context, a gateway.Ask) (*http.Response, error) {
		if strings.Contains(string(a.Body), "slow") {
			select {
			case <-open:
			case <-ctx.Done():
			}
		}
		return says("Hello")(ctx, a)
	})
	for range 70 { // more than Limits.Background
		r.create(`{"model":"m","input":"slow","background":true}`)
	}
	id := r.do("POST", "/v1/responses", `{"model":"m","input":"Hi","background":true}`, "other").Get("id").Str
	require.Eventually(t, func() bool {
		return r.do("GET", "/v1/responses/"+id, "", "other").Get("status").Str == "completed"
	}, patience, 5*time.Millisecond)
}
