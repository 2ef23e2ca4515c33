package responses_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/blobstore/blobtest"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/memory"
)

const mb = 1 << 20

// large returns items of about 100 kB each.
func large(n int) string {
	item := `{"role":"user","content":"` + strings.Repeat("x", 100_000) + `"}`
	return `{"items":[` + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + `]}`
}

// measured returns a world whose store counts and whose memory is bounded.
func measured(t *testing.T, total int64) (*replica, *blobtest.Bucket) {
	w := newWorld(t)
	count := blobtest.New(t)
	w.bucket = count.Blobs
	var err error
	w.memory, err = memory.New(total, nil)
	require.NoError(t, err)
	return w.replica(), count
}

// TestAConversationCostsWhatIsAskedOfIt in bytes that are read and written, whatever its size.
func TestAConversationCostsWhatIsAskedOfIt(t *testing.T) {
	r, count := measured(t, 64*mb)
	path := "/v1/conversations/" + r.do("POST", "/v1/conversations", `{}`).Get("id").Str
	var item string
	for n := range 16 {
		made := r.do("POST", path+"/items", large(20))
		require.Equal(t, 200, made.status)
		if n == 8 {
			item = made.Get("data.10.id").Str
		}
	}
	require.Equal(t, 400, r.do("POST", path+"/items", large(20)).status, "32 MiB are the most")
	for _, of := range []struct {
		method, path, body string
		read, written      int64
		items              int64
	}{
		{"GET", "/items/" + item, "", 256 << 10, 0, 0},
		{"GET", "/items?limit=1", "", 256 << 10, 0, 1},
		{"GET", "/items?limit=1&order=asc", "", 256 << 10, 0, 1},
		{"GET", "/items?limit=5&after=" + item, "", 1 << 20, 0, 5},
		{"GET", "/items?limit=100", "", 11 << 20, 0, 100},
		{"GET", "", "", 0, 0, 0},
		{"POST", "/items", `{"items":[{"role":"user","content":"ab"}]}`, 64 << 10, 64 << 10, 1},
		{"POST", "", `{"metadata":{"a":"b"}}`, 64 << 10, 64 << 10, 0},
		{"DELETE", "/items/" + item, "", 512 << 10, 256 << 10, 0},
	} {
		count.Reset()
		got := r.do(of.method, path+of.path, of.body)
		require.Equal(t, 200, got.status, got.body)
		require.Equal(t, of.items, got.Get("data.#").Int(), of.path)
		require.LessOrEqual(t, count.Read(), of.read, "%s %s", of.method, of.path)
		require.LessOrEqual(t, count.Written(), of.written, "%s %s", of.method, of.path)
		require.Zero(t, r.memory.Held(), "it is given back")
	}
	require.Equal(t, 404, r.do("GET", path+"/items/"+item, "").status)
	require.Equal(t, 200, r.do("DELETE", path, "").status)
	require.Empty(t, r.blobs(), "nothing is left of it")
}

// TestPagesFollowEachOther through all of a conversation, in both orders.
func TestPagesFollowEachOther(t *testing.T) {
	r, _ := measured(t, 64*mb)
	path := "/v1/conversations/" + r.do("POST", "/v1/conversations", large(7)).Get("id").Str
	for range 6 {
		require.Equal(t, 200, r.do("POST", path+"/items", `{"items":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`).status)
	}
	seen := map[string][]string{}
	for _, order := range []string{"asc", "desc"} {
		for after, more := "", true; more; {
			page := r.do("GET", path+"/items?limit=3&order="+order+"&after="+after, "")
			require.Equal(t, 200, page.status, page.body)
			require.True(t, gjson.Valid(page.body))
			for _, id := range page.Get("data.#.id").Array() {
				seen[order] = append(seen[order], id.Str)
			}
			require.Equal(t, page.Get("data.0.id").Str, page.Get("first_id").Str)
			after, more = page.Get("last_id").Str, page.Get("has_more").Bool()
		}
	}
	require.Len(t, seen["asc"], 19)
	for i, id := range seen["asc"] {
		require.Equal(t, id, seen["desc"][18-i])
	}
	empty := r.do("GET", path+"/items?after="+seen["desc"][18], "")
	require.JSONEq(t, `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}`, empty.body)
	require.Equal(t, 400, r.do("GET", path+"/items?after=msg_none", "").status)
}

// TestAStoredResponseIsPassedOnInPieces: a large answer, and a page of a large input.
func TestAStoredResponseIsPassedOnInPieces(t *testing.T) {
	r, count := measured(t, 64*mb)
	long := strings.Repeat("y", 3*mb)
	r.answers(func(context.Context, gateway.Ask) (*http.Response, error) {
		return response(200, "application/json", strings.NewReader(responseOf(long))), nil
	})
	path := "/v1/conversations/" + r.do("POST", "/v1/conversations", large(20)).Get("id").Str
	made := r.create(`{"model":"m","input":"x","conversation":"` + strings.TrimPrefix(path, "/v1/conversations/") + `"}`)
	require.Zero(t, r.memory.Held())
	r.memory, _ = memory.New(mb, nil)
	again := r.world.replica()
	id := made.Get("id").Str
	require.Equal(t, made.body, again.do("GET", "/v1/responses/"+id, "").body, "although it is larger than all memory")
	count.Reset()
	page := again.do("GET", "/v1/responses/"+id+"/input_items?limit=1", "")
	require.Equal(t, int64(1), page.Get("data.#").Int(), page.body)
	require.Less(t, count.Read(), int64(400<<10))
	require.Equal(t, int64(23), r.do("GET", path+"/items?limit=100", "").Get("data.#").Int())
	asked := r.do("POST", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"`+id+`"}`)
	require.Equal(t, 200, asked.status)
	last, _ := r.last()
	require.Equal(t, int64(24), last.Get("input.#").Int())
	require.Equal(t, 200, r.do("DELETE", "/v1/responses/"+id, "").status)
}

// TestWithoutMemoryAReadIsRefused for its tenant alone, and a client that leaves gives back what it had.
func TestWithoutMemoryAReadIsRefused(t *testing.T) {
	r, _ := measured(t, 32*mb)
	path := "/v1/conversations/" + r.do("POST", "/v1/conversations", large(20)).Get("id").Str
	held := r.memory.Request("the organization 'acme'")
	require.NoError(t, held.Take(t.Context(), 16*mb))
	refused := r.do("GET", path+"/items", "")
	require.Equal(t, 429, refused.status, refused.body)
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.Equal(t, 200, r.do("POST", "/v1/conversations", `{}`, "other").status)
	held.Release()

	var all sync.WaitGroup
	for range 50 {
		ctx, leave := context.WithCancel(t.Context())
		all.Go(func() {
			req := httptest.NewRequestWithContext(ctx, "GET", path+"/items?limit=20", nil)
			req.Header.Set(envoy.HeaderKey, "key_a")
			req.Header.Set(envoy.HeaderOrganization, "acme")
			req.Header.Set(envoy.HeaderProject, "shop")
			defer func() { require.Equal(t, http.ErrAbortHandler, recover()) }() // the server cuts the connection
			r.api.ServeHTTP(&leaving{httptest.NewRecorder(), leave}, req)
		})
	}
	all.Wait()
	require.Zero(t, r.memory.Held())
}

// leaving is a client that leaves when it has got something.
type leaving struct {
	*httptest.ResponseRecorder
	leave func()
}

func (l *leaving) Write(p []byte) (int, error) {
	l.leave()
	return 0, context.Canceled
}
