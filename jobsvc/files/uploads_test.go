package files_test

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// createUpload begins an upload of so many bytes and returns its id.
func (c *client) createUpload(bytes int, purpose string) string {
	c.t.Helper()
	return c.post("/v1/uploads", `{"bytes":%d,"filename":"big.jsonl","mime_type":"text/jsonl","purpose":%q}`, bytes,
		purpose).ok().text("id")
}

// addPart adds a part to an upload and returns its id.
func (c *client) addPart(upload, content string) string {
	c.t.Helper()
	return c.form("/v1/uploads/"+upload+"/parts", field{"data", "blob", content}).ok().text("id")
}

func (c *client) complete(upload string, parts ...string) answer {
	c.t.Helper()
	return c.post("/v1/uploads/"+upload+"/complete", `{"part_ids":["%s"]}`, strings.Join(parts, `","`))
}

func TestAnUploadBecomesAFile(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	created := c.post("/v1/uploads", `{"bytes":6,"filename":"big.jsonl","mime_type":"text/jsonl","purpose":"batch"}`).ok()
	o := created.object()
	id, at := o["id"].(string), int64(o["created_at"].(float64))
	require.Regexp(t, `^upload_[0-9A-Z]{26}$`, id)
	object := func(status, file string) string {
		return fmt.Sprintf(`{"id":%q,"object":"upload","bytes":6,"created_at":%d,"filename":"big.jsonl","purpose":"batch","status":%q,"expires_at":%d,"file":%s}`,
			id, at, status, at+3600, file)
	}
	require.JSONEq(t, object("pending", "null"), string(created.body))

	second := c.addPart(id, "def")
	firstAnswer := c.form("/v1/uploads/"+id+"/parts", field{"data", "blob", "abc"}).ok()
	first := firstAnswer.text("id")
	require.JSONEq(t, fmt.Sprintf(`{"id":%q,"object":"upload.part","created_at":%d,"upload_id":%q}`,
		first, int64(firstAnswer.object()["created_at"].(float64)), id), string(firstAnswer.body))
	c.addPart(id, "never asked for")

	sum := md5.Sum([]byte("abcdef"))
	done := c.post("/v1/uploads/"+id+"/complete", `{"part_ids":[%q,%q],"md5":%q}`, first, second,
		hex.EncodeToString(sum[:])).ok()
	file := done.object()["file"].(map[string]any)
	fileID := file["id"].(string)
	require.Equal(t, []string{"files/" + fileID}, w.blobs(), "the parts are gone")
	retrieved := c.get("/v1/files/" + fileID).ok()
	require.JSONEq(t, object("completed", string(retrieved.body)), string(done.body))
	require.InEpsilon(t, file["created_at"].(float64)+30*24*3600, file["expires_at"], 0)
	require.Equal(t, "abcdef", string(c.get("/v1/files/"+fileID+"/content").ok().body))
	require.Equal(t, []string{fileID}, c.get("/v1/files?purpose=batch").ids())

	require.Equal(t, done.body, c.complete(id, first, second).ok().body, "once more is the same answer")
	c.complete(id, second, first).refused(409, "part_ids", "", "other parts")
	c.form("/v1/uploads/"+id+"/parts", field{"data", "x", "y"}).refused(409, "", "",
		"Cannot add a part to an upload with status 'completed'.")
	refused := c.post("/v1/uploads/"+id+"/cancel", "").refused(409, "", "",
		"Cannot cancel an upload with status 'completed'.")
	require.Equal(t, "false", refused.header.Get("X-Should-Retry"))

	c.delete("/v1/files/" + fileID).ok()
	require.Equal(t, done.body, c.complete(id, first, second).ok().body, "even after the file was deleted")
	w.pass(26 * time.Hour)
	w.reap()
	c.complete(id, first, second).refused(404, "id", "", "No such Upload object: "+id)
	require.Empty(t, w.keys())
	require.Empty(t, w.blobs())
}

func TestAnUploadThatIsNotRightIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	for body, want := range map[string][3]string{
		`{"filename":"a","mime_type":"a/b","purpose":"vision"}`:                                                                {"bytes", "missing_required_parameter", "'bytes'"},
		`{"bytes":0,"filename":"a","mime_type":"a/b","purpose":"vision"}`:                                                      {"bytes", "integer_below_min_value", ">= 1"},
		`{"bytes":8589934593,"filename":"a","mime_type":"a/b","purpose":"vision"}`:                                             {"bytes", "integer_above_max_value", "8589934592"},
		`{"bytes":209715201,"filename":"a.jsonl","mime_type":"a/b","purpose":"batch"}`:                                         {"bytes", "integer_above_max_value", "209715200"},
		`{"bytes":"1","filename":"a","mime_type":"a/b","purpose":"vision"}`:                                                    {"bytes", "invalid_type", "string"},
		`{"bytes":1.5,"filename":"a","mime_type":"a/b","purpose":"vision"}`:                                                    {"bytes", "invalid_type", "number"},
		`{"bytes":1,"mime_type":"a/b","purpose":"vision"}`:                                                                     {"filename", "missing_required_parameter", "'filename'"},
		`{"bytes":1,"filename":"a","purpose":"vision"}`:                                                                        {"mime_type", "missing_required_parameter", "'mime_type'"},
		`{"bytes":1,"filename":"a","mime_type":"a b","purpose":"vision"}`:                                                      {"mime_type", "invalid_value", "'a b'"},
		`{"bytes":1,"filename":"a","mime_type":"a/b"}`:                                                                         {"purpose", "missing_required_parameter", "'purpose'"},
		`{"bytes":1,"filename":"a","mime_type":"a/b","purpose":"fun"}`:                                                         {"purpose", "invalid_value", "'fun'"},
		`{"bytes":1,"filename":"a","mime_type":"a/b","purpose":"batch"}`:                                                       {"", "", "Must be .jsonl"},
		`{"bytes":1,"filename":"a","mime_type":"a/b","purpose":"vision","expires_after":{"anchor":"created_at"}}`:              {"expires_after[seconds]", "missing_required_parameter", "seconds"},
		`{"bytes":1,"filename":"a","mime_type":"a/b","purpose":"vision","expires_after":{"seconds":3600}}`:                     {"expires_after[anchor]", "missing_required_parameter", "anchor"},
		`{"bytes":1,"filename":"a","mime_type":"a/b","purpose":"vision","expires_after":{"anchor":"created_at","seconds":1}}`:  {"expires_after[seconds]", "invalid_value", "3600"},
		`{"bytes":1,"filename":"a","mime_type":"a/b","purpose":"vision","expires_after":{"anchor":"created_at","seconds":""}}`: {"expires_after.seconds", "invalid_type", "string"},
		`[]`: {"", "invalid_type", "JSON"}, `{`: {"", "invalid_json", "JSON"}, ``: {"", "invalid_json", "JSON"},
		`{}}`: {"", "invalid_json", "JSON"},
	} {
		c.post("/v1/uploads", "%s", body).refused(400, want[0], want[1], want[2])
	}
	require.Empty(t, w.keys())

	id := c.createUpload(6, "user_data")
	first, second := c.addPart(id, "abc"), c.addPart(id, "def")
	other := c.addPart(c.createUpload(3, "user_data"), "abc")
	before, blobs := w.keys(), w.blobs()
	path := "/v1/uploads/" + id + "/parts"
	c.form(path).refused(400, "data", "missing_required_parameter", "'data'")
	c.form(path, field{"data", "x", ""}).refused(400, "data", "empty_part", "empty")
	c.form(path, field{"file", "x", "abc"}).refused(400, "file", "unknown_parameter", "'file'")
	c.form(path, field{"data", "x", "abc"}, field{"data", "x", "abc"}).refused(400, "data", "duplicate_parameter",
		"more than once")
	for body, want := range map[string][3]string{
		`{}`:                           {"part_ids", "missing_required_parameter", "'part_ids'"},
		`{"part_ids":[]}`:              {"part_ids", "missing_required_parameter", "'part_ids'"},
		`{"part_ids":"` + first + `"}`: {"part_ids", "invalid_type", "string"},
		`{"part_ids":["` + first + `","` + first + `"]}`: {"part_ids",
			"invalid_value", "more than once"},
		`{"part_ids":["` + first + `","` + other + `"]}`: {"part_ids",
			"invalid_value", "no part '" + other},
		`{"part_ids":["` + first + `"]}`: {"part_ids",
			"size_mismatch", "have 3 bytes together, but the upload was created for 6"},
		`{"part_ids":["` + first + `"],"md5":"x"}`: {"md5", "invalid_value",
			"32 hexadecimal"},
		`{"part_ids":["` + second + `","` + first + `"],"md5":"e80b5017098950fc58aad83c8c14978e"}`: {"md5",
			"checksum_mismatch", "still pending"},
	} {
		c.post("/v1/uploads/"+id+"/complete", "%s", body).refused(400, want[0], want[1], want[2])
	}
	require.Equal(t, before, w.keys(), "nothing has changed")
	require.Equal(t, blobs, w.blobs())
	c.post("/v1/uploads/"+id+"/complete", `{"part_ids":[%q,%q],"md5":"E80B5017098950FC58AAD83C8C14978E"}`, first,
		second).ok()
}

func TestCancelledAndExpiredUploadsKeepNothing(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	cancelled, expired := c.createUpload(3, "user_data"), c.createUpload(3, "user_data")
	part, late := c.addPart(cancelled, "abc"), c.addPart(expired, "abc")
	require.Equal(t, "cancelled", c.post("/v1/uploads/"+cancelled+"/cancel", "").ok().text("status"))
	require.Equal(t, "cancelled", c.post("/v1/uploads/"+cancelled+"/cancel", "").ok().text("status"), "once more")
	require.Len(t, w.blobs(), 1)
	c.complete(cancelled, part).refused(409, "", "", "Cannot complete an upload with status 'cancelled'.")
	c.form("/v1/uploads/"+cancelled+"/parts", field{"data", "x", "y"}).refused(409, "", "", "'cancelled'")

	w.pass(time.Hour)
	for range 2 { // before it is reaped, and after
		c.complete(expired, late).refused(409, "", "", "Cannot complete an upload with status 'expired'.")
		c.form("/v1/uploads/"+expired+"/parts", field{"data", "x", "y"}).refused(409, "", "", "'expired'")
		c.post("/v1/uploads/"+expired+"/cancel", "").refused(409, "", "", "'expired'")
		w.reap()
	}
	require.Empty(t, w.blobs())
	w.pass(25 * time.Hour)
	w.reap()
	require.Empty(t, w.keys())
}

func TestTwoCompletionsAtOnceMakeOneFile(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	for range 5 {
		id := c.createUpload(6, "user_data")
		first, second := c.addPart(id, "abc"), c.addPart(id, "def")
		answers := make([]answer, 4)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i] = c.complete(id, first, second) })
		}
		all.Go(func() { c.form("/v1/uploads/"+id+"/parts", field{"data", "x", "late"}) })
		all.Wait()
		for _, a := range answers {
			require.Equal(t, string(answers[0].ok().body), string(a.ok().body))
		}
	}
	require.Len(t, c.get("/v1/files").ids(), 5)
	require.Len(t, w.blobs(), 5)
}

func TestPartsMayComeAtOnceButNotMoreThanAThousand(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	id := c.createUpload(1000, "user_data")
	ids := make([]string, 1010)
	var refused []answer
	var lock sync.Mutex // guards refused
	var all sync.WaitGroup
	for worker := range 10 {
		all.Go(func() {
			for i := worker; i < len(ids); i += 10 {
				a := c.form("/v1/uploads/"+id+"/parts", field{"data", "x", "y"})
				if a.status == 200 {
					ids[i] = a.text("id")
					continue
				}
				lock.Lock()
				refused = append(refused, a)
				lock.Unlock()
			}
		})
	}
	all.Wait()
	require.Len(t, refused, 10)
	refused[0].refused(400, "", "too_many_parts", "1000 parts")
	require.Len(t, w.blobs(), 1000)
	var there []string
	for _, id := range ids {
		if id != "" {
			there = append(there, id)
		}
	}
	fileID := c.complete(id, there...).ok().object()["file"].(map[string]any)["id"].(string)
	require.Equal(t, []string{"files/" + fileID}, w.blobs())
	require.Len(t, c.get("/v1/files/"+fileID+"/content").ok().body, 1000)
}
