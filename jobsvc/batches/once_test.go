package batches_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/jobsvc/store"
)

// metadata is as large as it may be, in ASCII.
func metadata() string {
	all := map[string]string{}
	for i := range 16 {
		all[fmt.Sprintf("%02d%s", i, strings.Repeat("k", 62))] = strings.Repeat("v", 512)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return ""
	}
	return string(text)
}

// createWith makes a batch with metadata and returns its id.
func (w *world) createWith(metadata, text string) string {
	w.t.Helper()
	answer := w.call("POST", "/v1/batches",
		fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h","metadata":%s}`, w.input(text), chat,
			metadata))
	require.Equal(w.t, http.StatusOK, answer.Code, answer.Body.String())
	return wireOf(answer).Get("id").String()
}

// written returns how often etcd was written to since a revision, and how many bytes. Of these it counts the values
// that hold a text.
func (w *world) written(since int64, text string) (writes, bytes, with int) {
	w.t.Helper()
	const end = "the end"
	_, err := w.etcd.Put(w.t.Context(), end, "")
	require.NoError(w.t, err)
	for r := range w.etcd.Watch(w.t.Context(), "\x00", clientv3.WithFromKey(), clientv3.WithRev(since)) {
		for _, e := range r.Events {
			if string(e.Kv.Key) == end {
				return writes, bytes, with
			}
			writes++
			bytes += len(e.Kv.Key) + len(e.Kv.Value)
			if strings.Contains(string(e.Kv.Value), text) {
				with++
			}
		}
	}
	return writes, bytes, with
}

func TestMetadataIsWrittenOnceHoweverOftenABatchIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limits.Lines, w.limits.Open = 1, 4 // a write for each line or two
	began, err := w.etcd.Get(t.Context(), "x")
	require.NoError(t, err)
	const lines = 200
	id := w.createWith(metadata(), requests(lines))
	w.run(nil)
	w.requireEachLineOnce(w.over(id), lines)
	require.JSONEq(t, metadata(), w.get(id).Get("metadata").Raw)

	writes, bytes, with := w.written(began.Header.Revision+1, strings.Repeat("v", 512))
	t.Logf("a batch of %d lines with %d bytes of metadata: %d writes, %d bytes", lines, len(metadata()), writes, bytes)
	require.Greater(t, writes, 40)
	require.Equal(t, 1, with)
	require.Less(t, bytes, 2*len(metadata())+writes*1000)
}

func TestABatchOfTheVersionBeforeGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.createWith(`{"a":"b"}`, requests(30))
	// As that version has it: all in one.
	of := func(folder string) *clientv3.GetResponse {
		r, err := w.etcd.Get(t.Context(), store.Root+folder, clientv3.WithPrefix())
		require.NoError(t, err)
		require.Len(t, r.Kvs, 1)
		return r
	}
	record, once := of("batches/").Kvs[0], of("once/").Kvs[0]
	changed := strings.Replace(string(record.Value), `"endpoint"`, `"metadata":{"a":"b"},"endpoint"`, 1)
	_, err := w.etcd.Txn(t.Context()).Then(clientv3.OpDelete(string(once.Key)),
		clientv3.OpPut(string(record.Key), changed)).Commit()
	require.NoError(t, err)

	require.JSONEq(t, `{"a":"b"}`, w.get(id).Get("metadata").Raw)
	w.run(nil)
	w.requireEachLineOnce(w.over(id), 30)
	require.JSONEq(t, `{"a":"b"}`, w.get(id).Get("metadata").Raw)
	require.NotContains(t, string(of("batches/").Kvs[0].Value), "metadata")
}
