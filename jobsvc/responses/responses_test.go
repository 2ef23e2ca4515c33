package responses_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/responses"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// TestAConversationByPreviousResponses: the provider gets the whole conversation each time, and no state.
func TestAConversationByPreviousResponses(t *testing.T) {
	r := newWorld(t).replica()
	first := r.create(`{"model":"m","input":"Hi","instructions":"Be brief","metadata":{"a":"b"}}`)
	require.True(t, strings.HasPrefix(first.Get("id").Str, "resp_"))
	require.NotEqual(t, "resp_up", first.Get("id").Str)
	require.True(t, first.Get("store").Bool())
	require.Equal(t, "1", first.header.Get("X-Modelgate-Cost"))
	asked, _ := r.last()
	require.Equal(t, gjson.False, asked.Get("store").Type)
	require.Equal(t, "Be brief", asked.Get("instructions").Str)
	require.Equal(t, "Hi", asked.Get("input.0.content.0.text").Str)

	r.answers(says("Again"))
	second := r.create(`{"model":"m","previous_response_id":"` + first.Get("id").Str + `","input":[{"role":"user","content":"More"}]}`)
	require.Equal(t, first.Get("id").Str, second.Get("previous_response_id").Str)
	asked, _ = r.last()
	require.Equal(t, `["message","reasoning","message","message"]`, asked.Get("input.#.type").Raw)
	require.Equal(t, "Hello", asked.Get("input.2.content.0.text").Str)
	require.Equal(t, "More", asked.Get("input.3.content.0.text").Str)
	require.False(t, asked.Get("previous_response_id").Exists())
	require.False(t, asked.Get("instructions").Exists(), "instructions are not carried over")
	require.Equal(t, `["rs_up"]`, asked.Get("input.#.id").Raw, "only an encrypted reasoning is bound to its id")

	got := r.do("GET", "/v1/responses/"+second.Get("id").Str, "")
	require.Equal(t, second.body, got.body)
	items := r.do("GET", "/v1/responses/"+second.Get("id").Str+"/input_items?order=asc", "")
	require.Equal(t, int64(4), items.Get("data.#").Int(), items.body)
	require.Equal(t, "More", items.Get("data.3.content.0.text").Str)
	page := r.do("GET", "/v1/responses/"+second.Get("id").Str+"/input_items?limit=1&order=asc&after="+
		items.Get("data.1.id").Str, "")
	require.Equal(t, "Hello", page.Get("data.0.content.0.text").Str)
	require.True(t, page.Get("has_more").Bool())

	require.True(t, r.do("DELETE", "/v1/responses/"+first.Get("id").Str, "").Get("deleted").Bool())
	require.Equal(t, 404, r.do("GET", "/v1/responses/"+first.Get("id").Str, "").status)
	third := r.create(`{"model":"m","previous_response_id":"` + second.Get("id").Str + `","input":"Even more"}`)
	require.Equal(t, "completed", third.Get("status").Str, "a response holds what was before it")
}

func TestAStoredConversationIsCompacted(t *testing.T) {
	r := newWorld(t).replica()
	id := r.create(`{"model":"m","input":"Hi"}`).Get("id").Str
	r.answers(func(context.Context, gateway.Ask) (*http.Response, error) {
		return response(200, "application/json", strings.NewReader(`{"object":"response.compaction"}`)), nil
	})
	got := r.do("POST", "/v1/responses/compact", `{"model":"m","previous_response_id":"`+id+`","instructions":"Short"}`)
	require.Equal(t, `{"object":"response.compaction"}`, got.body)
	asked, _ := r.last()
	require.Equal(t, "Hello", asked.Get("input.2.content.0.text").Str)
	require.Equal(t, "Short", asked.Get("instructions").Str)
	require.False(t, asked.Get("store").Exists())
	require.Equal(t, 400, r.do("POST", "/v1/responses/compact", `{"model":"m","previous_response_id":"resp_1"}`).status)
}

func TestAnotherTenantFindsNothing(t *testing.T) {
	r := newWorld(t).replica()
	id := r.create(`{"model":"m","input":"Hi"}`).Get("id").Str
	conversation := r.do("POST", "/v1/conversations", `{}`).Get("id").Str
	for _, ask := range [][2]string{
		{"GET", "/v1/responses/" + id}, {"DELETE", "/v1/responses/" + id}, {"POST", "/v1/responses/" + id + "/cancel"},
		{"GET", "/v1/responses/" + id + "/input_items"}, {"GET", "/v1/responses/" + id + "?stream=true"},
		{"GET", "/v1/conversations/" + conversation}, {"DELETE", "/v1/conversations/" + conversation},
		{"GET", "/v1/conversations/" + conversation + "/items"},
		{"GET", "/v1/conversations/" + conversation + "/items/msg_1"},
	} {
		got := r.do(ask[0], ask[1], "", "other")
		require.Equal(t, 404, got.status, ask)
		require.Contains(t, got.Get("error.message").Str, "not found", ask)
	}
	got := r.do("POST", "/v1/responses", `{"model":"m","input":"Hi","previous_response_id":"`+id+`"}`, "other")
	require.Equal(t, 400, got.status)
	require.Equal(t, "previous_response_not_found", got.Get("error.code").Str)
	require.Equal(t, 404, r.do("POST", "/v1/responses", `{"model":"m","input":"Hi","conversation":"`+conversation+`"}`, "other").status)
	_, asked := r.last()
	require.Equal(t, 1, asked)
}

func TestBadRequestsAreRefusedBeforeAProviderIsAsked(t *testing.T) {
	r := newWorld(t).replica()
	for body, param := range map[string]string{
		`{"input":"Hi"}`:                                             "model",
		`{"model":"m"}`:                                              "input",
		`{"model":"m","input":7}`:                                    "input",
		`{"model":"m","input":["Hi"]}`:                               "input[0]",
		`{"model":"m","input":"Hi","store":"yes"}`:                   "store",
		`{"model":"m","input":"Hi","background":1}`:                  "background",
		`{"model":"m","input":"Hi","background":true,"store":false}`: "background",
		`{"model":"m","input":"Hi","conversation":"conv_1","previous_response_id":"resp_1"}`:  "previous_response_id",
		`{"model":"m","input":"Hi","conversation":{}}`:                                        "conversation.id",
		`{"model":"m","input":"Hi","previous_response_id":"resp_01JD3T9Q8H6R5W4Z2Y0X9V8N7M"}`: "previous_response_id",
		`{"model":"m","input":"Hi","include":"x"}`:                                            "include",
		`{"model":"m","input":[{"type":"item_reference","id":"msg_none"}]}`:                   "input[0]",
	} {
		got := r.do("POST", "/v1/responses", body)
		require.Contains(t, []int{400, 404}, got.status, body)
		require.Equal(t, param, got.Get("error.param").Str, "%s: %s", body, got.body)
	}
	id := r.create(`{"model":"m","input":"Hi"}`).Get("id").Str
	for path, want := range map[string]string{
		"/v1/responses/" + id + "?stream=true":             "Only a response that was created with 'background' and 'stream'",
		"/v1/responses/" + id + "/input_items?limit=0":     "limit",
		"/v1/responses/" + id + "/input_items?after=other": "after",
	} {
		got := r.do("GET", path, "")
		require.Equal(t, 400, got.status, path)
		require.Contains(t, got.Get("error.message").Str, want, path)
	}
	got := r.do("POST", "/v1/responses/"+id+"/cancel", "")
	require.Equal(t, 400, got.status)
	require.Contains(t, got.body, "created with 'background'")
}

func TestNothingIsStoredWhereTheOperatorOrTheClientSaysSo(t *testing.T) {
	w := newWorld(t)
	r := w.replica()
	require.False(t, r.create(`{"model":"m","input":"Hi","store":false,"include":["reasoning.encrypted_content"]}`).Get("store").Bool())
	require.Empty(t, w.blobs())
	w.config.Responses = nil
	got := r.do("POST", "/v1/responses", `{"model":"m","input":"Hi"}`)
	require.Equal(t, 400, got.status)
	require.Contains(t, got.body, "not turned on")
}

// TestErrorsAreTheProvidersOwn: they reach the client as the gateway has rendered them, and nothing is stored.
func TestErrorsAreTheProvidersOwn(t *testing.T) {
	w := newWorld(t)
	r := w.replica()
	w.answers(func(context.Context, gateway.Ask) (*http.Response, error) {
		answer := response(429, "application/json", strings.NewReader(`{"error":{"code":"rate_limit_exceeded"}}`))
		answer.Header.Set("Retry-After", "7")
		return answer, nil
	})
	got := r.do("POST", "/v1/responses", `{"model":"m","input":"Hi","stream":true}`)
	require.Equal(t, 429, got.status)
	require.Equal(t, "rate_limit_exceeded", got.Get("error.code").Str)
	require.Equal(t, "7", got.header.Get("Retry-After"))
	w.answers(func(context.Context, gateway.Ask) (*http.Response, error) { return nil, errors.New("refused") })
	require.Equal(t, 503, r.do("POST", "/v1/responses", `{"model":"m","input":"Hi"}`).status)
	w.answers(func(context.Context, gateway.Ask) (*http.Response, error) {
		return response(200, "application/json", strings.NewReader(`[]`)), nil
	})
	require.Equal(t, 502, r.do("POST", "/v1/responses", `{"model":"m","input":"Hi"}`).status)
	require.Empty(t, w.blobs())
}

func TestAStreamIsStoredBeforeItsEndIsPassed(t *testing.T) {
	w := newWorld(t)
	r := w.replica()
	all := eventsOf(t, r.create(`{"model":"m","input":"Hi","stream":true}`).body)
	require.Equal(t, []string{"created", "in_progress", "output_text.delta", "output_text.done", "completed"},
		namesOf(all))
	id := all[0].Get("response.id").Str
	require.Equal(t, id, all[4].Get("response.id").Str)
	require.JSONEq(t, all[4].Get("response").Raw, r.do("GET", "/v1/responses/"+id, "").body)

	w.answers(func(context.Context, gateway.Ask) (*http.Response, error) {
		return response(200, "text/event-stream", strings.NewReader(beginning("Hel"))), nil
	})
	all = eventsOf(t, r.create(`{"model":"m","input":"Hi","stream":true}`).body)
	require.Equal(t, []string{"created", "in_progress", "output_text.delta", "output_text.done", "error"}, namesOf(all))
	require.Equal(t, int64(4), all[4].Get("sequence_number").Int())
	require.Equal(t, 404, r.do("GET", "/v1/responses/"+all[0].Get("response.id").Str, "").status)
}

// TestAStoreThatIsAwayFailsOnlyWhatNeedsIt: a client that has not asked to store gets its answer, which says that it
// is not stored.
func TestAStoreThatIsAwayFailsOnlyWhatNeedsIt(t *testing.T) {
	w := newWorld(t)
	r := w.replica()
	w.answers(func(ctx context.Context, a gateway.Ask) (*http.Response, error) {
		require.NoError(t, os.RemoveAll(w.folder)) // once it was found to be there
		require.NoError(t, os.WriteFile(w.folder, nil, 0o600))
		return says("Hello")(ctx, a)
	})
	got := r.create(`{"model":"m","input":"Hi"}`)
	require.False(t, got.Get("store").Bool())
	require.Equal(t, 404, r.do("GET", "/v1/responses/"+got.Get("id").Str, "").status)
	got = r.do("POST", "/v1/responses", `{"model":"m","input":"Hi","store":true}`)
	require.GreaterOrEqual(t, got.status, 500)
	all := eventsOf(t, r.create(`{"model":"m","input":"Hi","store":true,"stream":true}`).body)
	require.Equal(t, "response.failed", all[len(all)-1].name)
	require.Contains(t, all[len(all)-1].Get("response.error.message").Str, "could not store")
}

// TestQuotasAreCheckedBeforeAProviderIsAsked: the tenant pays for no answer that is refused.
func TestQuotasAreCheckedBeforeAProviderIsAsked(t *testing.T) {
	w := newWorld(t)
	r := w.replica()
	w.bound(1)
	require.Equal(t, 200, r.do("POST", "/v1/responses", `{"model":"m","input":"Hi"}`).status)
	_, before := w.last()
	for _, body := range []string{`{"model":"m","input":"Hi"}`, `{"model":"m","input":"Hi","background":true}`} {
		got := r.do("POST", "/v1/responses", body)
		require.Equal(t, 429, got.status, got.body)
		require.Contains(t, got.body, "stored_responses")
	}
	_, after := w.last()
	require.Equal(t, before, after)
	require.Equal(t, 200, r.do("POST", "/v1/responses", `{"model":"m","input":"Hi","store":false}`).status)
}

func TestWhatIsStoredIsSealedAndExpires(t *testing.T) {
	w := newWorld(t)
	r := w.replica()
	id := r.create(`{"model":"m","input":"Attack at dawn"}`).Get("id").Str
	r.do("POST", "/v1/conversations", `{"items":[{"role":"user","content":"Attack at dawn"}]}`)
	names := w.blobs()
	require.Len(t, names, 3)
	for _, name := range names {
		text, err := w.bucket.ReadAll(t.Context(), name)
		require.NoError(t, err)
		require.NotContains(t, string(text), "dawn")
	}
	kvs, err := w.etcd.Get(t.Context(), "\x00", clientv3.WithFromKey())
	require.NoError(t, err)
	for _, kv := range kvs.Kvs {
		require.False(t, bytes.Contains(kv.Value, []byte("dawn")), string(kv.Key))
	}
	w.pass(25 * time.Hour)
	require.Equal(t, 404, r.do("GET", "/v1/responses/"+id, "").status, "also before it is removed")
	handlers := map[string]func(context.Context, store.Expiry) error{}
	for _, kind := range responses.Expiring() {
		handlers[kind] = r.Expire
	}
	require.NoError(t, w.store.Reap(t.Context(), w.clock(), handlers))
	require.Empty(t, w.blobs())
	require.Zero(t, w.usage())
}

// TestDocumentsWithoutARecordAreCollected: a process may die between the two.
func TestDocumentsWithoutARecordAreCollected(t *testing.T) {
	w := newWorld(t)
	r := w.replica()
	r.create(`{"model":"m","input":"Hi"}`)
	_, err := w.etcd.Delete(t.Context(), store.Root+"responses/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.NoError(t, r.Collect(t.Context()))
	require.Len(t, w.blobs(), 2, "its day is not over")
	w.pass(49 * time.Hour)
	require.NoError(t, r.Collect(t.Context()))
	require.Empty(t, w.blobs())
}

func TestTenThousandResponsesAreListedAndDeleted(t *testing.T) {
	testenv.Long(t)
	w := newWorld(t)
	r := w.replica()
	const n = 10_000
	for i := range n {
		require.Equal(t, 200, r.do("POST", "/v1/responses", fmt.Sprintf(`{"model":"m","input":"%d"}`, i)).status)
	}
	require.Equal(t, int64(n), w.usage())
	for after, left := "", n; left > 0; {
		page := r.do("GET", "/v1/responses?limit=100&after="+after, "")
		require.Equal(t, int64(min(100, left)), page.Get("data.#").Int())
		left -= 100
		require.Equal(t, left > 0, page.Get("has_more").Bool())
		after = page.Get("last_id").Str
		for _, one := range page.Get("data").Array() {
			require.True(t, r.do("DELETE", "/v1/responses/"+one.Get("id").Str, "").Get("deleted").Bool())
		}
	}
	require.Empty(t, w.blobs())
	require.Zero(t, w.usage())
}
