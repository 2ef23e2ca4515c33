package files_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const line = `{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{}}` + "\n"

func TestAFileIsKeptAsItWasSent(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	before := w.now().Unix()
	created := c.form("/v1/files", field{"purpose", "", "batch"}, field{"file", "in.jsonl", line}).ok()
	o := created.object()
	id := o["id"].(string)
	at := int64(o["created_at"].(float64))
	require.InDelta(t, before, at, 1)
	require.JSONEq(t,
		fmt.Sprintf(`{"id":%q,"object":"file","bytes":%d,"created_at":%d,"expires_at":%d,"filename":"in.jsonl","purpose":"batch",
		"status":"processed","status_details":null}`, id, len(line), at, at+30*24*3600), string(created.body))
	require.Regexp(t, `^file-[0-9A-Z]{26}$`, id)

	require.Equal(t, created.body, c.get("/v1/files/"+id).ok().body)
	content := c.get("/v1/files/" + id + "/content").ok()
	require.Equal(t, line, string(content.body))
	require.Equal(t, "application/octet-stream", content.header.Get("Content-Type"))
	require.Equal(t, `attachment; filename="in.jsonl"`, content.header.Get("Content-Disposition"))
	require.Equal(t, fmt.Sprint(len(line)), content.header.Get("Content-Length"))
	require.Equal(t, http.StatusNotModified, c.with("If-None-Match", content.header.Get("ETag")).get("/v1/files/"+id+
		"/content").status)

	require.JSONEq(t, fmt.Sprintf(`{"id":%q,"object":"file","deleted":true}`, id),
		string(c.delete("/v1/files/"+id).ok().body))
	for _, gone := range []answer{c.get("/v1/files/" + id), c.get("/v1/files/" + id + "/content"),
		c.delete("/v1/files/" + id)} {
		gone.refused(404, "id", "", "No such File object: "+id)
	}
	require.Empty(t, w.blobs())
	require.Empty(t, w.keys(), "what belonged to the file is gone too")
}

func TestFieldsMayComeInAnyOrderAndFilesMayExpire(t *testing.T) {
	c := newWorld(t).as(alice)
	file, purpose := field{"file", "a.txt", "x"}, field{"purpose", "", "user_data"}
	anchor, seconds := field{"expires_after[anchor]", "", "created_at"}, field{"expires_after[seconds]", "", "3600"}
	for name, fields := range map[string][]field{
		"file last":         {anchor, seconds, purpose, file},
		"file first":        {file, seconds, anchor, purpose},
		"file in the midst": {anchor, file, purpose, seconds},
	} {
		o := c.form("/v1/files", fields...).ok().object()
		require.InEpsilon(t, o["created_at"].(float64)+3600, o["expires_at"], 0, name)
	}
	require.Nil(t, c.form("/v1/files", purpose, file).ok().object()["expires_at"], "other files never expire")
}

func TestFilenames(t *testing.T) {
	c := newWorld(t).as(alice)
	for name, want := range map[string]string{
		"plain name.txt": `attachment; filename="plain name.txt"`,
		"dir/x.txt":      `attachment; filename="dir_x.txt"; filename*=UTF-8''dir%2Fx.txt`,
		"naïve €.txt":    `attachment; filename="na_ve _.txt"; filename*=UTF-8''na%C3%AFve%20%E2%82%AC.txt`,
		"a\tb;c.txt":     `attachment; filename="a_b;c.txt"; filename*=UTF-8''a%09b%3Bc.txt`,
		"%0D%0AX: 1":     `attachment; filename="_0D_0AX: 1"; filename*=UTF-8''%250D%250AX%3A%201`,
		"..":             `attachment; filename=".."`,
	} {
		id := c.upload("user_data", name, "x")
		require.Equal(t, name, c.get("/v1/files/"+id).ok().text("filename"), "it is kept as it was given")
		require.Equal(t, want, c.get("/v1/files/"+id+"/content").ok().header.Get("Content-Disposition"))
	}
	quoted := c.upload("user_data", `a\"b`, "x")
	require.Equal(t, `a"b`, c.get("/v1/files/"+quoted).ok().text("filename"))
	require.Equal(t, `attachment; filename="a_b"; filename*=UTF-8''a%22b`,
		c.get("/v1/files/"+quoted+"/content").header.Get("Content-Disposition"))
}

func TestAFormThatIsNotRightIsRefusedAndLeavesNothing(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	file, purpose := field{"file", "a.jsonl", line}, field{"purpose", "", "batch"}
	anchor, seconds := field{"expires_after[anchor]", "", "created_at"}, field{"expires_after[seconds]", "", "3600"}
	for name, tc := range map[string]struct {
		fields               []field
		param, code, message string
	}{
		"no file": {[]field{purpose}, "file", "missing_required_parameter", "Missing required parameter: 'file'."},
		"nothing": {nil, "file", "missing_required_parameter", "Missing required parameter: 'file'."},
		"no purpose": {[]field{file}, "purpose", "missing_required_parameter",
			"Missing required parameter: 'purpose'."},
		"two files":    {[]field{file, file, purpose}, "file", "duplicate_parameter", "more than once"},
		"two purposes": {[]field{purpose, purpose, file}, "purpose", "duplicate_parameter", "more than once"},
		"unknown purpose": {[]field{{"purpose", "", "fun"}, file}, "purpose", "invalid_value",
			"Invalid value: 'fun'. Supported values are: 'assistants', 'batch'"},
		"purpose of ours": {[]field{file, {"purpose", "", "batch_output"}}, "purpose", "invalid_value", "'batch_output'"},
		"empty purpose":   {[]field{file, {"purpose", "", ""}}, "purpose", "invalid_value", "Invalid value: ''"},
		"unknown field": {[]field{purpose, file, {"porpoise", "", "x"}}, "porpoise", "unknown_parameter",
			"Unknown parameter: 'porpoise'."},
		"long field": {[]field{{"purpose", "", strings.Repeat("x", 2000)}, file}, "purpose",
			"string_above_max_length", "longer"},
		"long filename": {[]field{purpose, {"file", strings.Repeat("x", 2000), line}}, "file", "string_above_max_length",
			"longer"},
		"field for a file": {[]field{{"purpose", "", "user_data"}, {"file", "", "x"}}, "file", "invalid_type",
			"expected a file"},
		"empty file": {[]field{{"purpose", "", "user_data"}, {"file", "a", ""}}, "file", "empty_file", "empty"},
		"batch not jsonl": {[]field{purpose, {"file", "a.json", line}}, "", "",
			"Invalid file format for Batch API. Must be .jsonl"},
		"batch, late": {[]field{{"file", "a.json", line}, purpose}, "", "",
			"Invalid file format for Batch API. Must be .jsonl"},
		"tuning not jsonl": {[]field{{"purpose", "", "fine-tune"}, {"file", "a.csv", line}}, "", "",
			"Invalid file format for Fine-Tuning API. Must be .jsonl"},
		"expiry: anchor": {[]field{{"expires_after[anchor]", "", "now"}, seconds, purpose, file}, "expires_after[anchor]",
			"invalid_value", "'created_at'"},
		"expiry: no anchor": {[]field{seconds, purpose, file}, "expires_after[anchor]", "missing_required_parameter",
			"Missing"},
		"expiry: no time": {[]field{anchor, purpose, file}, "expires_after[seconds]", "missing_required_parameter",
			"Missing"},
		"expiry: too soon": {[]field{anchor, {"expires_after[seconds]", "", "3599"}, purpose, file},
			"expires_after[seconds]", "invalid_value", "3599"},
		"expiry: too late": {[]field{anchor, {"expires_after[seconds]", "", "2592001"}, purpose, file},
			"expires_after[seconds]", "invalid_value", "2592001"},
		"expiry: zero": {[]field{anchor, {"expires_after[seconds]", "", "0"}, purpose, file}, "expires_after[seconds]",
			"invalid_type", "above 0"},
		"expiry: no number": {[]field{{"expires_after[seconds]", "", "1h"}, anchor, purpose, file}, "expires_after[seconds]",
			"invalid_type", "'1h'"},
	} {
		t.Run(name, func(t *testing.T) {
			c.form("/v1/files", tc.fields...).refused(400, tc.param, tc.code, tc.message)
			require.Empty(t, w.blobs())
			require.Empty(t, w.keys())
		})
	}
	c.do("POST", "/v1/files", "application/json", strings.NewReader("{}")).refused(415, "", "unsupported_content_type",
		"multipart/form-data")
	c.do("POST", "/v1/files", "multipart/form-data", strings.NewReader("{}")).refused(400, "", "invalid_form", "boundary")
	c.do("POST", "/v1/files", "multipart/form-data; boundary=x", strings.NewReader("no form")).refused(400, "",
		"invalid_form", "last boundary")
	c.with("Idempotency-Key", "no spaces").form("/v1/files", purpose, file).refused(400, "", "invalid_idempotency_key",
		"visible ASCII")
	c.with("X-Modelgate-Key", "").form("/v1/files", purpose, file).refused(401, "", "invalid_api_key", "gateway")
	require.Empty(t, w.blobs())
}

// Row 106 of what goes wrong in such systems: a list that comes too late.
func TestAListShowsAFileAsSoonAsItIsThere(t *testing.T) {
	c := newWorld(t).as(alice)
	require.JSONEq(t, `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}`,
		string(c.get("/v1/files").ok().body))
	var newest []string
	for i := range 5 {
		purpose := []string{"user_data", "batch"}[i%2]
		id := c.upload(purpose, "a.jsonl", line)
		newest = append([]string{id}, newest...)
		require.ElementsMatch(t, newest, c.get("/v1/files").ids())
		require.Contains(t, c.get("/v1/files?purpose="+purpose).ids(), id)
	}
	all := c.get("/v1/files").ids() // ids of the same millisecond come in any order, but always in the same
	for path, want := range map[string][]string{
		"?limit=2":                           all[:2],
		"?limit=2&after=" + all[1]:           all[2:4],
		"?limit=2&after=" + all[3]:           all[4:],
		"?limit=10000":                       all,
		"?order=asc&limit=1":                 all[4:],
		"?order=asc&limit=1&after=" + all[1]: all[:1],
		"?purpose=vision":                    {},
	} {
		require.Equal(t, want, c.get("/v1/files"+path).ids(), path)
	}
	require.Len(t, c.get("/v1/files?purpose=batch").ids(), 2)
	require.Equal(t, true, c.get("/v1/files?limit=4").object()["has_more"])
	require.Equal(t, false, c.get("/v1/files?limit=5").object()["has_more"])
	require.Equal(t, true, c.get("/v1/files?limit=1&purpose=batch").object()["has_more"])
	require.Equal(t, false, c.get("/v1/files?limit=2&purpose=batch").object()["has_more"])
	c.get("/v1/files?limit=0").refused(400, "limit", "integer_below_min_value", "0")
	c.get("/v1/files?limit=10001").refused(400, "limit", "integer_above_max_value", "10000")
	c.get("/v1/files?order=up").refused(400, "order", "invalid_value", "'asc' and 'desc'")
	c.get("/v1/files?after=batch_1").refused(400, "after", "invalid_value", "batch_1")
}

func TestRanges(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	id := c.upload("user_data", "a", "0123456789")
	for asked, want := range map[string]string{
		"bytes=0-3": "0123", "bytes=4-": "456789", "bytes=-2": "89", "bytes=8-99": "89", "bytes=3-3": "3",
	} {
		got := c.with("Range", asked).get("/v1/files/" + id + "/content")
		require.Equal(t, http.StatusPartialContent, got.status, asked)
		require.Equal(t, want, string(got.body), asked)
		require.Equal(t, fmt.Sprint(len(want)), got.header.Get("Content-Length"))
		require.Regexp(t, `^bytes \d-\d/10$`, got.header.Get("Content-Range"))
	}
	for _, asked := range []string{"bytes=10-", "bytes=5-2", "bytes=x", "lines=1-2"} {
		got := c.with("Range", asked).get("/v1/files/"+id+"/content").refused(416, "", "invalid_range", "has 10")
		require.Empty(t, got.header.Get("Content-Disposition"))
	}
	require.Equal(t, "bytes */10", c.with("Range", "bytes=10-").get("/v1/files/"+id+
		"/content").header.Get("Content-Range"))
	require.Equal(t, "0123456789", string(c.with("Range", "bytes=0-1,4-5").get("/v1/files/"+id+"/content").ok().body),
		"several are answered whole")
	require.Equal(t, "0123456789", string(c.with("Range", "bytes=0-1", "If-Range", `"other"`).get("/v1/files/"+id+
		"/content").ok().body))
	require.Zero(t, w.logs.Len())
}

func TestAFileInUseIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	id := c.form("/v1/files", field{"purpose", "", "batch"}, field{"file", "in.jsonl", line},
		field{"expires_after[anchor]", "", "created_at"}, field{"expires_after[seconds]", "", "3600"}).ok().text("id")
	txn := w.begin()
	txn.Use(id, "batch_1")
	w.commit(txn)

	refused := c.delete("/v1/files/"+id).refused(409, "id", "file_in_use", "Cancel the job")
	require.Equal(t, "false", refused.header.Get("X-Should-Retry"))
	w.pass(time.Hour + time.Second)
	w.reap()
	require.Equal(t, line, string(c.get("/v1/files/"+id+"/content").ok().body), "nor does it expire under its user")

	txn = w.begin()
	txn.Free(id, "batch_1")
	w.commit(txn)
	w.reap()
	c.get("/v1/files/" + id).ok()
	w.pass(10 * time.Minute)
	w.reap()
	c.get("/v1/files/"+id).refused(404, "id", "", "No such File object")
	require.Empty(t, w.blobs())
	require.Empty(t, w.keys())
}

func TestFilesExpire(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	batch, other := c.upload("batch", "a.jsonl", line), c.upload("user_data", "a", line)
	w.pass(30*24*time.Hour - time.Minute)
	w.reap()
	require.ElementsMatch(t, []string{batch, other}, c.get("/v1/files").ids())
	w.pass(time.Minute + time.Second)
	w.reap()
	require.Equal(t, []string{other}, c.get("/v1/files").ids())
	require.Equal(t, []string{"files/" + other}, w.blobs())
	require.NoError(t, w.service.Expire(t.Context(), store.Expiry{Kind: "files", Tenant: tenant(alice), ID: batch}),
		"once more is no error")
	require.Error(t, w.service.Expire(t.Context(), store.Expiry{Kind: "else"}))
}

func tenant(c caller) store.Tenant {
	return store.Tenant{Organization: c.organization, Project: c.project}
}

// Row 105 of what goes wrong in such systems: another tenant's id.
func TestTenantsSeeNothingOfOneAnother(t *testing.T) {
	w := newWorld(t)
	file, up := w.as(alice).upload("batch", "a.jsonl", line), w.as(alice).createUpload(2, "user_data")
	part := w.as(alice).addPart(up, "xy")
	const nobodysFile, nobodysUpload = "file-01ARZ3NDEKTSV4RRFFQ69G5FAV", "upload_01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for _, who := range []caller{bob, project, {"acme", ""}, {"", "search"}, {"acme/search", ""}, {"", ""}} {
		c := w.as(who)
		require.Equal(t, answerless(c.get("/v1/files?after="+nobodysFile)), answerless(c.get("/v1/files?after="+file)))
		require.Empty(t, c.get("/v1/files").ids())
		for what, ask := range map[string]func(file, upload string) answer{
			"retrieve": func(f, _ string) answer { return c.get("/v1/files/" + f) },
			"content":  func(f, _ string) answer { return c.get("/v1/files/" + f + "/content") },
			"delete":   func(f, _ string) answer { return c.delete("/v1/files/" + f) },
			"part":     func(_, u string) answer { return c.form("/v1/uploads/"+u+"/parts", field{"data", "x", "xy"}) },
			"complete": func(_, u string) answer { return c.post("/v1/uploads/"+u+"/complete", `{"part_ids":[%q]}`, part) },
			"cancel":   func(_, u string) answer { return c.post("/v1/uploads/"+u+"/cancel", "") },
		} {
			foreign, missing := ask(file, up), ask(nobodysFile, nobodysUpload)
			require.Equal(t, 404, foreign.status, what)
			same := strings.NewReplacer(nobodysFile, file, nobodysUpload, up)
			require.Equal(t, same.Replace(string(missing.body)), string(foreign.body), what)
			foreign.header.Del("Date")
			missing.header.Del("Date")
			require.Equal(t, missing.header, foreign.header, what)
		}
	}
	w.as(alice).get("/v1/files/" + file).ok()
	w.as(alice).post("/v1/uploads/"+up+"/complete", `{"part_ids":[%q]}`, part).ok()
	for _, id := range []string{"x", "file-", "file-x", "batch_01ARZ3NDEKTSV4RRFFQ69G5FAV",
		"file-01arz3ndektsv4rrffq69g5fav", "%2e%2e", "a%2Fb"} {
		require.Equal(t, 404, w.as(alice).get("/v1/files/"+id).status, id)
	}
}

func answerless(a answer) string { return fmt.Sprint(a.status, string(a.body)) }

func TestOthersMayAddAndRemoveFiles(t *testing.T) {
	w := newWorld(t)
	f := &store.Record[files.File]{Tenant: tenant(alice), ID: files.Kind.NewID(), Value: files.File{
		Filename: "out.jsonl", Purpose: files.PurposeBatchOutput, Bytes: int64(len(line)), CreatedAt: 1,
		ExpiresAt: w.now().Unix() + 60,
	}}
	require.NoError(t, w.bucket.WriteAll(t.Context(), files.BlobOf(f.ID), []byte(line), nil))
	txn := w.begin()
	files.Add(txn, f)
	w.commit(txn)
	require.Equal(t, line, string(w.as(alice).get("/v1/files/"+f.ID+"/content").ok().body))
	w.pass(25 * time.Hour)
	w.collect()
	require.Len(t, w.blobs(), 1)
	txn = w.begin()
	files.Remove(txn, f)
	w.commit(txn)
	require.Empty(t, w.keys())
	w.collect()
	require.Empty(t, w.blobs())
}
