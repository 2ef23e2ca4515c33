package batches_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/store"
)

func TestANewBatchIsShownWhole(t *testing.T) {
	w := newWorld(t)
	now := time.Unix(1_800_000_000, 0)
	w.now = func() time.Time { return now }
	file := w.input(requests(1))
	answer := w.call("POST", "/v1/batches",
		fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h","metadata":{"b":"2","a":"1"}}`, file, chat))
	require.Equal(t, http.StatusOK, answer.Code)
	id := wireOf(answer).Get("id").String()
	require.True(t, strings.HasPrefix(id, "batch_"))
	require.Equal(t,
		fmt.Sprintf(`{"id":%q,"object":"batch","endpoint":"/v1/chat/completions","model":null,"errors":null,"input_file_id":%q,`+
			`"completion_window":"24h","status":"validating","output_file_id":null,"error_file_id":null,"created_at":1800000000,"in_progress_at":null,`+
			`"expires_at":1800086400,"finalizing_at":null,"completed_at":null,"failed_at":null,"expired_at":null,"cancelling_at":null,"cancelled_at":null,`+
			`"request_counts":{"total":0,"completed":0,"failed":0},"usage":null,"metadata":{"a":"1","b":"2"}}`, id, file),
		answer.Body.String())
	require.Equal(t, answer.Body.String(), w.call("GET", "/v1/batches/"+id, "").Body.String())
}

func TestWhatIsNotCreated(t *testing.T) {
	w := newWorld(t)
	file := w.input(requests(1))
	other := files.Kind.NewID()
	txn := w.store.Begin()
	files.Add(txn, &store.Record[files.File]{Tenant: tenant, ID: other, Value: files.File{Purpose: files.PurposeFineTune,
		Bytes: 1}})
	large := files.Kind.NewID()
	files.Add(txn, &store.Record[files.File]{Tenant: tenant, ID: large, Value: files.File{Purpose: files.PurposeBatch,
		Bytes: 201 << 20}})
	require.NoError(t, txn.Commit(t.Context()))
	body := func(change func(map[string]string)) string {
		members := map[string]string{"input_file_id": fmt.Sprintf("%q", file), "endpoint": `"/v1/chat/completions"`,
			"completion_window": `"24h"`}
		change(members)
		var all []string
		for name, value := range members {
			if value != "" {
				all = append(all, fmt.Sprintf("%q:%s", name, value))
			}
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	set := func(name, value string) string { return body(func(m map[string]string) { m[name] = value }) }
	pairs := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"k%d":"v"`, i))
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	for name, c := range map[string]struct {
		body   string
		status int
		param  string
		says   string
	}{
		"no JSON":   {"{", 400, "", "We could not parse the JSON body of your request: unexpected EOF"},
		"no object": {"[]", 400, "", "The JSON body of your request must be an object."},
		"no file": {set("input_file_id", ""), 400, "input_file_id",
			"Missing required parameter: 'input_file_id'."},
		"no endpoint": {set("endpoint", ""), 400, "endpoint", "Missing required parameter: 'endpoint'."},
		"no window": {set("completion_window", ""), 400, "completion_window",
			"Missing required parameter: 'completion_window'."},
		"a file of another type": {set("input_file_id", "7"), 400, "input_file_id", "Invalid type for 'input_file_id'"},
		"another endpoint": {set("endpoint", `"/v1/responses"`), 400, "endpoint",
			"Supported endpoints of batches are: '/v1/chat/completions', '/v1/completions', '/v1/embeddings'."},
		"another window": {set("completion_window", `"1h"`), 400, "completion_window",
			"Supported values are: '24h'."},
		"an unknown file": {set("input_file_id", `"file-abc123"`), 404, "id", "No such File object: file-abc123"},
		"another purpose": {set("input_file_id", fmt.Sprintf("%q", other)), 400, "input_file_id", "is 'fine-tune'"},
		"a large file":    {set("input_file_id", fmt.Sprintf("%q", large)), 400, "input_file_id", "split it"},
		"much metadata":   {set("metadata", pairs(17)), 400, "metadata", "at most 16 properties"},
		"a long key": {set("metadata", `{"`+strings.Repeat("k", 65)+`":"v"}`), 400, "metadata",
			"maximum length 64"},
		"a long value": {set("metadata", `{"k":"`+strings.Repeat("v", 513)+`"}`), 400, "metadata.k",
			"maximum length 512"},
		"a number in metadata":  {set("metadata", `{"k":1}`), 400, "metadata.k", "expected a string"},
		"null in metadata":      {set("metadata", `{"k":null}`), 400, "metadata.k", "expected a string"},
		"metadata that is none": {set("metadata", `"x"`), 400, "metadata", "Invalid type for 'metadata'"},
		"another anchor": {set("output_expires_after", `{"anchor":"now","seconds":3600}`), 400,
			"output_expires_after.anchor", "created_at"},
		"an early expiry": {set("output_expires_after", `{"anchor":"created_at","seconds":3599}`), 400,
			"output_expires_after.seconds", "a value >= 3600"},
		"a late expiry": {set("output_expires_after", `{"anchor":"created_at","seconds":2592001}`), 400,
			"output_expires_after.seconds", "a value <= 2592000"},
		"seconds of a type": {set("output_expires_after", `{"anchor":"created_at","seconds":"3600"}`), 400,
			"output_expires_after.seconds", "Invalid type"},
		"a large body": {set("metadata", `{"k":"`+strings.Repeat("v", 70_000)+`"}`), 413, "", "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := w.call("POST", "/v1/batches", c.body)
			require.Equal(t, c.status, answer.Code, answer.Body.String())
			e := gjson.Get(answer.Body.String(), "error")
			require.Contains(t, e.Get("message").String(), c.says)
			require.Equal(t, c.param, e.Get("param").String())
			require.Equal(t, "invalid_request_error", e.Get("type").String())
		})
	}
	for name, good := range map[string]string{
		"most metadata":    set("metadata", pairs(16)),
		"null metadata":    set("metadata", "null"),
		"no metadata":      set("metadata", "{}"),
		"characters count": set("metadata", `{"`+strings.Repeat("ü", 64)+`":"`+strings.Repeat("ü", 512)+`"}`),
		"unknown members":  set("more", "1"),
	} {
		t.Run(name, func(t *testing.T) {
			answer := w.call("POST", "/v1/batches", good)
			require.Equal(t, http.StatusOK, answer.Code, answer.Body.String())
		})
	}
}

func TestACreationCanBeRepeated(t *testing.T) {
	w := newWorld(t)
	body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, w.input(requests(1)), chat)
	first := w.call("POST", "/v1/batches", body, "Idempotency-Key", "k")
	require.Equal(t, http.StatusOK, first.Code)
	second := w.call("POST", "/v1/batches", body, "Idempotency-Key", "k")
	require.Equal(t, first.Body.String(), second.Body.String())
	other := w.call("POST", "/v1/batches", body+" ", "Idempotency-Key", "k")
	require.Equal(t, http.StatusConflict, other.Code)
	require.Equal(t, "false", other.Header().Get("X-Should-Retry"))
	require.Len(t, gjson.Get(w.call("GET", "/v1/batches", "").Body.String(), "data").Array(), 1)
}

func TestABatchOfAnotherTenantIsOneThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	id := w.create(requests(1))
	file := w.get(id).Get("input_file_id").String()
	missing := "batch_01JD3T9Q8H6R5W4Z2Y0X9V8N7M"
	for _, who := range []store.Tenant{{}, {Organization: "acme"}, {Organization: "acme", Project: "p2"},
		{Organization: "other", Project: "p1"}} {
		for _, c := range []struct{ method, suffix string }{{"GET", ""}, {"POST", "/cancel"}} {
			theirs := w.callAs(who, c.method, "/v1/batches/"+id+c.suffix, "")
			none := w.callAs(who, c.method, "/v1/batches/"+missing+c.suffix, "")
			require.Equal(t, http.StatusNotFound, theirs.Code)
			require.Equal(t, strings.ReplaceAll(none.Body.String(), missing, id), theirs.Body.String())
			require.Equal(t, none.Header(), theirs.Header())
		}
		require.JSONEq(t, `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}`,
			w.callAs(who, "GET", "/v1/batches", "").Body.String())
		answer := w.callAs(who, "POST", "/v1/batches",
			fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, file, chat))
		require.Equal(t, http.StatusNotFound, answer.Code)
		require.JSONEq(t,
			fmt.Sprintf(
				`{"error":{"message":"No such File object: %s","type":"invalid_request_error","param":"id","code":null}}`, file),
			answer.Body.String())
	}
	require.Equal(t, "validating", w.get(id).status())
	for _, bad := range []string{"x", "batch_", "batch_1", "file-01JD3T9Q8H6R5W4Z2Y0X9V8N7M", strings.ToLower(id)} {
		require.Equal(t, http.StatusNotFound, w.call("GET", "/v1/batches/"+bad, "").Code)
	}
}

func TestListsPage(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for range 5 {
		ids = append(ids, w.create(requests(1)))
	}
	slices.Sort(ids) // those of one millisecond have no other order
	slices.Reverse(ids)
	for _, limit := range []int{1, 2, 4, 5, 6} {
		var got []string
		after := ""
		for more := true; more; {
			answer := w.call("GET", fmt.Sprintf("/v1/batches?limit=%d&after=%s", limit, after), "")
			require.Equal(t, http.StatusOK, answer.Code)
			page := gjson.Parse(answer.Body.String())
			for _, b := range page.Get("data").Array() {
				got = append(got, b.Get("id").String())
				require.Equal(t, "batch", b.Get("object").String())
			}
			after = page.Get("last_id").String()
			require.Equal(t, got[len(got)-1], after)
			more = page.Get("has_more").Bool()
			require.Equal(t, len(got) < len(ids), more, "has_more is exact")
		}
		require.Equal(t, ids, got)
	}
	for query, param := range map[string]string{"limit=0": "limit", "limit=101": "limit", "limit=x": "limit",
		"after=x": "after"} {
		answer := w.call("GET", "/v1/batches?"+query, "")
		require.Equal(t, http.StatusBadRequest, answer.Code)
		require.Equal(t, param, gjson.Get(answer.Body.String(), "error.param").String())
	}
}
