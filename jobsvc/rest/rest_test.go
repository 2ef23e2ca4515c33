package rest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// ask has f answer a request with headers: names and values by turns.
func ask(f rest.HandlerFunc, target string, headers ...string) (*httptest.ResponseRecorder, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	r := httptest.NewRequest(http.MethodPost, target, nil)
	r.Header.Set(envoy.HeaderKey, "key")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	rest.Handler(zap.New(core), nil, f).ServeHTTP(w, r)
	return w, logs
}

func TestTheCallerIsWhoTheHeadersSay(t *testing.T) {
	for name, tc := range map[string]struct {
		headers []string
		want    rest.Caller
	}{
		"key alone": {nil, rest.Caller{Key: "key"}},
		"all": {[]string{envoy.HeaderOrganization, "acme", envoy.HeaderProject, "search"},
			rest.Caller{Key: "key", Tenant: store.Tenant{Organization: "acme", Project: "search"}}},
		"unusual": {[]string{envoy.HeaderOrganization, "a%2Fb+c%C3%A9"},
			rest.Caller{Key: "key", Tenant: store.Tenant{Organization: "a/b cé"}}},
		"request id": {[]string{"X-Request-Id", "req_1"}, rest.Caller{Key: "key"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got rest.Caller
			w, _ := ask(func(_ http.ResponseWriter, _ *http.Request, c rest.Caller) error { got = c; return nil }, "/",
				tc.headers...)
			require.Equal(t, 200, w.Code)
			require.Equal(t, tc.want, got)
			require.Equal(t, name == "request id", w.Header().Get("X-Request-Id") == "req_1")
		})
	}
	for _, headers := range [][]string{{envoy.HeaderKey, ""}, {envoy.HeaderOrganization, "%"},
		{envoy.HeaderProject, "%zz"}} {
		w, _ := ask(func(http.ResponseWriter, *http.Request, rest.Caller) error { t.Error("nobody asks"); return nil }, "/",
			headers...)
		require.Equal(t, 401, w.Code)
		require.Contains(t, w.Body.String(), `"invalid_api_key"`)
	}
}

func TestTheLengthIsWhatTheClientHasAnnounced(t *testing.T) {
	for announced, want := range map[string]int64{"": -1, "0": 0, "300000": 300_000, "-2": -1, "x": -1} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.ContentLength = -1
		r.Header.Set(envoy.HeaderLength, announced)
		var got int64
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.ContentLength })
		rest.WithContentLength(next).ServeHTTP(nil, r)
		require.Equal(t, want, got, announced)
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("body"))
	r.Header.Set(envoy.HeaderLength, "1")
	rest.WithContentLength(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.EqualValues(t, 4,
			r.ContentLength)
	})).ServeHTTP(nil, r)
}

func TestACompressedBodyIsRefused(t *testing.T) {
	for encoding, want := range map[string]int{"gzip": 415, "GZIP": 415, "zstd": 415, "identity": 200, "Identity": 200,
		"": 200} {
		w, _ := ask(func(http.ResponseWriter, *http.Request, rest.Caller) error { return nil }, "/", "Content-Encoding",
			encoding, "X-Request-Id", "req_1")
		require.Equal(t, want, w.Code, encoding)
		require.Equal(t, "req_1", w.Header().Get("X-Request-Id"))
		if want == 415 {
			require.Contains(t, w.Body.String(), `"code":"unsupported_content_encoding"`)
		}
	}
}

func TestFailuresOfStorageAreExplained(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		status int
		code   string
		header string
		logged bool
	}{
		"the client's mistake": {openai.Code("b").On("a", "c"), 400, "b", "", false},
		"disk full":            {fmt.Errorf("write: %w", syscall.ENOSPC), 507, "storage_full", "X-Should-Retry", true},
		"quota":                {fmt.Errorf("write: %w", syscall.EDQUOT), 507, "storage_full", "X-Should-Retry", true},
		"conflict":             {fmt.Errorf("write: %w", store.ErrConflict), 409, "conflict", "", false},
		"etcd is late": {fmt.Errorf("read: %w", context.DeadlineExceeded), 503, "gateway_unavailable", "Retry-After",
			true},
		"etcd is full": {fmt.Errorf("write: %w", rpctypes.ErrNoSpace), 507, "storage_full", "X-Should-Retry", true},
		"etcd has too much": {fmt.Errorf("write: %w", rpctypes.ErrTooManyRequests), 503, "gateway_unavailable",
			"Retry-After", true},
		"something else": {errors.New("secret detail"), 500, "internal_error", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			w, logs := ask(func(http.ResponseWriter, *http.Request, rest.Caller) error { return tc.err }, "/")
			require.Equal(t, tc.status, w.Code)
			require.Contains(t, w.Body.String(), `"code":"`+tc.code+`"`)
			require.NotContains(t, w.Body.String(), "secret detail")
			if tc.header != "" {
				require.NotEmpty(t, w.Header().Get(tc.header))
			}
			require.Equal(t, tc.logged, logs.Len() == 1)
		})
	}
}

func TestPageOf(t *testing.T) {
	for query, want := range map[string]store.Page{
		"":                                 {Limit: 20},
		"?limit=1&after=x":                 {Limit: 1, After: "x"},
		"?limit=100":                       {Limit: 100},
		"?order=asc":                       {Limit: 20, Ascending: true},
		"?order=desc&limit=&after=&else=1": {Limit: 20},
	} {
		got, err := rest.PageOf(httptest.NewRequest(http.MethodGet, "/"+query, nil), 20, 100, true)
		require.NoError(t, err, query)
		require.Equal(t, want, got, query)
	}
	for query, want := range map[string]string{
		"?limit=0":     "integer_below_min_value",
		"?limit=-1":    "integer_below_min_value",
		"?limit=101":   "integer_above_max_value",
		"?limit=many":  "invalid_type",
		"?limit=1.5":   "invalid_type",
		"?limit=9e99":  "invalid_type",
		"?order=ASC":   "invalid_value",
		"?order=first": "invalid_value",
	} {
		_, err := rest.PageOf(httptest.NewRequest(http.MethodGet, "/"+query, nil), 20, 100, true)
		e, ok := errors.AsType[*openai.Error](err)
		require.True(t, ok, query)
		require.Equal(t, []any{400, want}, []any{e.Status, string(e.Code)}, query)
	}
	got, err := rest.PageOf(httptest.NewRequest(http.MethodGet, "/?order=asc", nil), 20, 100, false)
	require.NoError(t, err)
	require.Equal(t, store.Page{Limit: 20}, got, "a list that has no order does not read one")
}

func TestCursor(t *testing.T) {
	e, ok := errors.AsType[*openai.Error](rest.Cursor(fmt.Errorf("list: %w", store.ErrCursor), "x"))
	require.True(t, ok)
	require.Equal(t, "after", e.Param)
	other := errors.New("other")
	require.Equal(t, other, rest.Cursor(other, "x"))
	require.NoError(t, rest.Cursor(nil, "x"))
}

func TestListOf(t *testing.T) {
	show := func(r *store.Record[int]) string { return r.ID }
	require.Equal(t, rest.List[string]{Object: "list", Data: []string{}}, rest.ListOf(nil, false, show),
		"an empty one is no null")
	a, b := "a", "b"
	page := []*store.Record[int]{{ID: a}, {ID: b}}
	require.Equal(t, rest.List[string]{Object: "list", Data: []string{a, b}, FirstID: &a, LastID: &b, HasMore: true},
		rest.ListOf(page, true, show))
}

func request(key string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/things", nil)
	r.Header.Set("Idempotency-Key", key)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func TestIdempotency(t *testing.T) {
	var caller rest.Caller
	none, err := rest.Idempotency(request(""), caller, "x")
	require.NoError(t, err)
	require.Nil(t, none)
	for _, key := range []string{"a b", "a\tb", "é", strings.Repeat("x", 256), " "} {
		_, err := rest.Idempotency(request(key), caller)
		e, ok := errors.AsType[*openai.Error](err)
		require.True(t, ok, key)
		require.Equal(t, "invalid_idempotency_key", string(e.Code))
	}
	fingerprint := func(r *http.Request, parts ...string) string {
		i, err := rest.Idempotency(r, caller, parts...)
		require.NoError(t, err)
		return i.Fingerprint
	}
	same := fingerprint(request(strings.Repeat("x", 255)), "a", "b")
	require.Equal(t, same, fingerprint(request("other", "X-Else", "1"), "a", "b"),
		"it is of what is asked, and nothing else")
	other := request("k")
	other.URL.Path = "/v1/else"
	for _, different := range []string{
		fingerprint(request("k"), "ab"), fingerprint(request("k"), "a", "b", ""), fingerprint(request("k"), "b", "a"),
		fingerprint(request("k"), "a1:b"), fingerprint(other, "a", "b"),
	} {
		require.NotEqual(t, same, different)
	}
}

type thing struct {
	N int64 `json:"n"`
}

var things = store.Kind[thing]{Name: "things", Prefix: "thing_"}

// A world creates things on a real etcd.
type world struct {
	*testing.T
	store *store.Store
	made  atomic.Int64 // how often a handler has filled a transaction
}

// create answers a request that creates a thing, with the parts that it is known by.
func (w *world) create(key string, parts ...string) (answer *httptest.ResponseRecorder, made bool) {
	answer, _ = ask(func(out http.ResponseWriter, r *http.Request, c rest.Caller) error {
		same, err := rest.Idempotency(r, c, parts...)
		if err != nil {
			return err
		}
		made, err = rest.Create(out, r, c, w.store, same, time.Now(), func(t *store.Txn) (any, error) {
			r := &store.Record[thing]{ID: things.NewID(), Value: thing{w.made.Add(1)}}
			things.Create(t, r)
			return r.Value, nil
		})
		return err
	}, "/v1/things", "Idempotency-Key", key)
	return answer, made
}

func (w *world) count() int {
	w.Helper()
	page, _, err := things.List(w.Context(), w.store, store.Tenant{}, store.Page{Limit: 100}, nil)
	require.NoError(w, err)
	return len(page)
}

func TestCreate(t *testing.T) {
	w := &world{T: t, store: store.New(etcdtest.Start(t))}
	first, made := w.create("k", "a")
	require.True(t, made)
	require.Equal(t, 200, first.Code)
	require.JSONEq(t, `{"n":1}`, first.Body.String())
	require.Equal(t, "application/json", first.Header().Get("Content-Type"))
	again, made := w.create("k", "a")
	require.False(t, made)
	require.Equal(t, first.Body.String(), again.Body.String())
	require.Equal(t, "true", again.Header().Get("Idempotency-Replayed"))
	require.Equal(t, 1, w.count())

	other, made := w.create("k", "b")
	require.False(t, made)
	require.Equal(t, 409, other.Code)
	require.Contains(t, other.Body.String(), `"idempotency_key_reused"`)
	require.Equal(t, "false", other.Header().Get("X-Should-Retry"))

	for range 2 {
		_, made = w.create("", "a")
		require.True(t, made, "without a key each request is new")
	}
	require.Equal(t, 3, w.count())
}

func TestOfTheSameRequestsAtOnceAllHaveOneAnswer(t *testing.T) {
	w := &world{T: t, store: store.New(etcdtest.Start(t))}
	answers := make([]*httptest.ResponseRecorder, 20)
	var made atomic.Int64
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			var mine bool
			if answers[i], mine = w.create("k", "a"); mine {
				made.Add(1)
			}
		})
	}
	all.Wait()
	for _, a := range answers {
		require.Equal(t, 200, a.Code)
		require.Equal(t, answers[0].Body.String(), a.Body.String())
	}
	require.EqualValues(t, 1, made.Load())
	require.Equal(t, 1, w.count())
}

func TestACreationThatFailsIsNotRemembered(t *testing.T) {
	s := store.New(etcdtest.Start(t))
	for _, fill := range []func(*store.Txn) (any, error){
		func(*store.Txn) (any, error) { return nil, openai.Code("b").On("a", "c") },
		func(*store.Txn) (any, error) { return make(chan int), nil }, // no JSON
		func(t *store.Txn) (any, error) {
			things.Unchanged(t, &store.Record[thing]{ID: things.NewID(), Revision: 1})
			return thing{}, nil
		},
	} {
		same := &store.Idempotency{Key: "k", Fingerprint: "f"}
		out := httptest.NewRecorder()
		made, err := rest.Create(out, request("k"), rest.Caller{}, s, same, time.Now(), fill)
		require.Error(t, err)
		require.False(t, made)
		require.Empty(t, out.Body.String(), "the handler answers with the error")
		body, err := s.Recall(t.Context(), same)
		require.NoError(t, err)
		require.Nil(t, body)
	}
}

func TestWithoutEtcdTheAnswerIs503(t *testing.T) {
	t.Parallel() // it waits
	server := etcdtest.New(t)
	w := &world{T: t, store: store.New(server.Client(t))}
	_, made := w.create("", "a")
	require.True(t, made)
	server.Stop()
	var all sync.WaitGroup
	for _, key := range []string{"", "k"} {
		all.Go(func() {
			began := time.Now()
			a, made := w.create(key, "a")
			if made || a.Code != 503 || a.Header().Get("Retry-After") != "1" ||
				!strings.Contains(a.Body.String(), `"gateway_unavailable"`) {
				t.Errorf("%d %s", a.Code, a.Body)
			}
			if waited := time.Since(began); waited > 7*time.Second {
				t.Errorf("the answer came after %v", waited)
			}
		})
	}
	all.Wait()
}
