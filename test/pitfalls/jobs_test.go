package pitfalls

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/test/harness"
)

// jobRows are those of files and batches.
func jobRows() []row {
	return []row{
		{105, "another tenant's id is a 404 like that of nothing", foreignIDs},
		{106, "what was created is listed at once, and outputs are their owner's", listedAtOnce},
		{107, "a vendor's own ids never reach a client", vendorIDs},
		{108, "a batch whose input is wrong fails, and says code, line and member", wrongInput},
		{109, "a custom_id that is used twice fails the batch", duplicateID},
		{110, "a byte order mark, any line ends and empty lines are no error, and count as lines", oddLines},
		{111, "a batch all of whose lines fail is completed, without an output file", allFail},
		{112, "a line whose answer is broken costs no other line its usage", brokenLine},
		{113, "lines are translated as requests are, for every endpoint and vendor", translatedLines},
		{114, "no line is lost and none is there twice after a crash", crashedBatch},
		{115, "what was done stays when a batch is cancelled or expires, and the rest says why", endedEarly},
		{116, "a batch heeds its provider's limits, and live requests do not wait for it", sharedProvider},
	}
}

// foreignRequests ask for something by its id, for which THE-ID stands.
var foreignRequests = map[string][][3]string{
	"file": {
		{"GET", "/v1/files/THE-ID"}, {"GET", "/v1/files/THE-ID/content"}, {"DELETE", "/v1/files/THE-ID"},
		{"POST", "/v1/batches", `{"input_file_id":"THE-ID","endpoint":"/v1/chat/completions","completion_window":"24h"}`},
		{"POST", "/v1/fine_tuning/jobs", `{"model":"echo/echo","training_file":"THE-ID"}`},
		{"GET", "/v1/files?after=THE-ID"},
	},
	"upload": {
		{"POST", "/v1/uploads/THE-ID/cancel"}, {"POST", "/v1/uploads/THE-ID/complete", `{"part_ids":[]}`},
	},
	"batch": {{"GET", "/v1/batches/THE-ID"}, {"POST", "/v1/batches/THE-ID/cancel"}, {"GET", "/v1/batches?after=THE-ID"}},
	"job": {
		{"GET", "/v1/fine_tuning/jobs/THE-ID"}, {"GET", "/v1/fine_tuning/jobs/THE-ID/events"},
		{"GET", "/v1/fine_tuning/jobs/THE-ID/checkpoints"},
		{"POST", "/v1/fine_tuning/jobs/THE-ID/cancel"}, {"POST", "/v1/fine_tuning/jobs/THE-ID/pause"},
		{"POST", "/v1/fine_tuning/jobs/THE-ID/resume"},
		{"GET", "/v1/fine_tuning/jobs?after=THE-ID"},
	},
	"model": {
		{"GET", "/v1/models/THE-ID"}, {"DELETE", "/v1/models/THE-ID"},
		{"POST", "/v1/chat/completions", `{"model":"THE-ID","messages":[{"role":"user","content":"hi"}]}`},
	},
}

func foreignIDs(t *testing.T) {
	g := overJobs(t)
	client := func(organization, project string) harness.Client {
		_, key := g.CreateKey(t, organization, project)
		c := g.As(key)
		harness.Eventually(t, "the key works",
			func() error { var any struct{}; return c.Try(http.MethodGet, "/v1/models", &any) })
		return c
	}
	owner := client("acme", "one")
	ids := map[string]string{"file": owner.Upload(t, "fine-tune", examples(12))}
	ids["batch"] = owner.Begin(t, chatPath, harness.ChatLine("line-1", "openai/any", "line-1"))
	ids["job"] = create(t, owner, "/v1/fine_tuning/jobs", `{"model":"echo/echo","training_file":"`+ids["file"]+`"}`)
	ids["upload"] = create(t, owner, "/v1/uploads",
		`{"bytes":3,"filename":"x","mime_type":"text/plain","purpose":"user_data"}`)
	owner.Await(t, ids["batch"])
	ids["model"] = tuned(t, owner, ids["job"])
	before := everythingOf(t, owner)

	for name, stranger := range map[string]harness.Client{
		"another organization": client("other", "one"), "another project": client("acme", "two"),
		"no project":      client("acme", ""),
		"no organization": g.client,
	} {
		t.Run(name, func(t *testing.T) {
			for kind, requests := range foreignRequests {
				missing := otherThan(ids[kind])
				for _, request := range requests {
					withoutIDs := func(id string) string {
						a := stranger.Do(t, request[0], strings.ReplaceAll(request[1], "THE-ID", id),
							strings.ReplaceAll(request[2], "THE-ID", id))
						a.Header.Del("X-Request-Id")
						a.Header.Del("Date")
						return strings.ReplaceAll(fmt.Sprint(a.Status, a.Header, string(a.Body)), id, "THE-ID")
					}
					require.Equal(t, withoutIDs(missing), withoutIDs(ids[kind]), "%v", request)
					if !strings.Contains(request[1], "?") {
						require.Regexp(t, `^(404|400)`, withoutIDs(ids[kind]))
					}
				}
			}
			for path, list := range everythingOf(t, stranger) {
				require.Empty(t, list, path)
			}
		})
	}
	require.Equal(t, before, everythingOf(t, owner), "nothing happened to what is the owner's")
}

// otherThan is an id that differs from another in one character, which nothing has.
func otherThan(id string) string {
	i := len(id) - 4
	c := map[bool]string{true: "0", false: "1"}[id[i] != '0']
	return id[:i] + c + id[i+1:]
}

func create(t *testing.T, c harness.Client, path, body string) string {
	t.Helper()
	a := c.Do(t, http.MethodPost, path, body)
	require.Equal(t, 200, a.Status, "%s", a.Body)
	return a.JSON(t)["id"].(string)
}

// examples is a file to train with.
func examples(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"messages":[{"role":"user","content":"question %d"},{"role":"assistant","content":"answer %d"}]}`+
			"\n", i, i)
	}
	return b.String()
}

// tuned waits for a job and returns the name of its model.
func tuned(t *testing.T, c harness.Client, job string) (model string) {
	t.Helper()
	harness.Eventually(t, "the model is trained", func() error {
		var j struct {
			Status string
			Model  string `json:"fine_tuned_model"`
		}
		if err := c.Try(http.MethodGet, "/v1/fine_tuning/jobs/"+job, &j); err != nil {
			return err
		}
		if j.Status != "succeeded" {
			return fmt.Errorf("it is %s", j.Status)
		}
		model = j.Model
		return nil
	})
	harness.Eventually(t, "the model is there",
		func() error { var any struct{}; return c.Try(http.MethodGet, "/v1/models/"+model, &any) })
	return model
}

// everythingOf returns the ids in each list of a client's, but those of models that are no fine-tuned ones.
func everythingOf(t *testing.T, c harness.Client) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, path := range []string{"/v1/files", "/v1/batches", "/v1/fine_tuning/jobs", "/v1/models"} {
		a := c.Do(t, http.MethodGet, path, "")
		require.Equal(t, 200, a.Status, "%s", a.Body)
		found[path] = nil
		for _, id := range gjson.GetBytes(a.Body, "data.#.id").Array() {
			if path != "/v1/models" || strings.HasPrefix(id.Str, "ft:") {
				found[path] = append(found[path], id.Str)
			}
		}
	}
	return found
}

func listedAtOnce(t *testing.T) {
	g := overJobs(t)
	_, key := g.CreateKey(t, "acme", "")
	c := g.As(key)
	harness.Eventually(t, "the key works", func() error {
		var any struct{}
		return c.Try(http.MethodGet, "/v1/models",
			&any)
	})
	var files, batches []string
	for i := range 5 {
		lines, _ := chats("openai/any", i+1)
		files = append(files, c.Upload(t, "batch", strings.Join(lines, "\n")))
		require.Equal(t, files[i], firstOf(t, c, "/v1/files?limit=1&purpose=batch"))
		batches = append(batches, c.BeginWith(t, chatPath, files[i]))
		require.Equal(t, batches[i], firstOf(t, c, "/v1/batches?limit=1"))
	}
	var outputs []string
	for _, id := range batches {
		b := c.Await(t, id)
		require.NotNil(t, b.OutputFileID)
		outputs = append(outputs, *b.OutputFileID)
	}
	require.ElementsMatch(t, outputs, paged(t, c, "/v1/files?purpose=batch_output&limit=2"))
	require.ElementsMatch(t, append(slices.Clone(files), outputs...), paged(t, c, "/v1/files?limit=3"))
	slices.Reverse(batches)
	require.Equal(t, batches, paged(t, c, "/v1/batches?limit=2"))
	for _, limit := range []int{len(batches) - 1, len(batches), len(batches) + 1} {
		a := c.Do(t, http.MethodGet, fmt.Sprint("/v1/batches?limit=", limit), "")
		require.Equal(t, limit < len(batches), gjson.GetBytes(a.Body, "has_more").Bool(), "has_more is exact")
	}
}

func firstOf(t *testing.T, c harness.Client, path string) string {
	t.Helper()
	a := c.Do(t, http.MethodGet, path, "")
	require.Equal(t, 200, a.Status, "%s", a.Body)
	return gjson.GetBytes(a.Body, "data.0.id").Str
}

// paged reads a list page by page, as SDKs do.
func paged(t *testing.T, c harness.Client, path string) (ids []string) {
	t.Helper()
	for after := ""; ; {
		a := c.Do(t, http.MethodGet, path+after, "")
		require.Equal(t, 200, a.Status, "%s", a.Body)
		page := gjson.GetBytes(a.Body, "data.#.id").Array()
		for _, id := range page {
			require.NotContains(t, ids, id.Str)
			ids = append(ids, id.Str)
		}
		if !gjson.GetBytes(a.Body, "has_more").Bool() {
			return ids
		}
		require.NotEmpty(t, page, "there is more, but not here")
		after = "&after=" + ids[len(ids)-1]
	}
}

func wrongInput(t *testing.T) {
	g := overJobs(t)
	good := harness.ChatLine("line-1", "openai/any", "hi")
	member := func(s string) *string { return &s }
	for _, c := range []struct {
		name, code, line string // the line is the second
		param            *string
	}{
		{"no JSON", "invalid_json_line", `{"custom_id":`, nil},
		{"no object", "invalid_request", `[1]`, nil},
		{"no custom_id", "missing_required_parameter", strings.Replace(good, `"custom_id":"line-1",`, "", 1),
			member("custom_id")},
		{"no method", "missing_required_parameter", strings.Replace(good, `"method":"POST",`, "", 1), member("method")},
		{"another method", "invalid_request", strings.Replace(strings.Replace(good, "POST", "GET", 1), "line-1", "line-2",
			1), member("method")},
		{"another endpoint", "url_mismatch", strings.Replace(strings.Replace(good, chatPath, "/v1/embeddings", 1), "line-1",
			"line-2", 1), member("url")},
		{"no body", "missing_required_parameter", `{"custom_id":"line-2","method":"POST","url":"/v1/chat/completions"}`,
			member("body")},
		{"a model that is not there", "model_not_found", harness.ChatLine("line-2", "nobody/nothing", "hi"),
			member("body.model")},
		{"a stream", "invalid_request", harness.Line("line-2", chatPath,
			`{"model":"openai/any","stream":true,"messages":[{"role":"user","content":"hi"}]}`), member("body.stream")},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := g.client.Await(t, g.client.Begin(t, chatPath, good, c.line))
			require.Equal(t, "failed", b.Status)
			require.NotNil(t, b.Errors)
			require.Len(t, b.Errors.Data, 1, "%+v", b.Errors.Data)
			e := b.Errors.Data[0]
			require.Equal(t, c.code, e.Code, e.Message)
			require.Equal(t, c.param, e.Param, e.Message)
			require.Equal(t, new(2), e.Line)
			require.Regexp(t, `^[A-Z].*\.$`, e.Message, "a sentence")
			require.Nil(t, b.OutputFileID)
		})
	}
	require.Empty(t, g.worker.times(), "nothing is asked of a batch that is wrong")

	// What a request may not say is the answer to that line alone, as it would be to the request.
	lenient := g.client.Await(t, g.client.Begin(t, chatPath, good,
		harness.Line("line-2", chatPath, `{"model":"openai/any","messages":"hi"}`)))
	require.Equal(t, "completed", lenient.Status)
	_, failed := g.requireResults(t, lenient, []string{"line-1", "line-2"})
	require.Equal(t, 400, failed["line-2"].Response.StatusCode)
	require.Equal(t, "messages", gjson.GetBytes(failed["line-2"].Response.Body, "error.param").Str)

	empty := g.client.Await(t, g.client.BeginWith(t, chatPath, g.client.Upload(t, "batch", "\n\n")))
	require.Equal(t, "failed", empty.Status)
	require.Equal(t, "empty_file", empty.Errors.Data[0].Code)
	body, contentType := harness.Form(t, "picture.png", good, "purpose", "batch")
	a := g.client.Do(t, http.MethodPost, "/v1/files", body, "Content-Type", contentType)
	require.Equal(t, 400, a.Status)
	require.Contains(t, a.Failure(t).Message, ".jsonl")
}

func duplicateID(t *testing.T) {
	g := overJobs(t)
	lines, _ := chats("openai/any", 3)
	b := g.client.Await(t, g.client.Begin(t, chatPath, append(lines, lines[1])...))
	require.Equal(t, "failed", b.Status)
	require.Len(t, b.Errors.Data, 1)
	require.Equal(t, "duplicate_custom_id", b.Errors.Data[0].Code)
	require.Equal(t, new(4), b.Errors.Data[0].Line)
	require.Contains(t, b.Errors.Data[0].Message, "line-2")
	require.Empty(t, g.worker.times())
}

func oddLines(t *testing.T) {
	g := overJobs(t)
	lines, ids := chats("openai/any", 3)
	const mark = "\ufeff"
	for name, text := range map[string]string{
		"plain":               strings.Join(lines, "\n"),
		"a trailing new line": strings.Join(lines, "\n") + "\n",
		"a byte order mark":   mark + strings.Join(lines, "\n"),
		"line ends of DOS":    strings.Join(lines, "\r\n") + "\r\n",
		"empty lines":         "\n\n" + strings.Join(lines, "\n \t\n\r\n") + "\n\n",
		"all of them":         mark + "\r\n" + strings.Join(lines, "\r\n\r\n") + "\n\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := g.client.Await(t, g.client.BeginWith(t, chatPath, g.client.Upload(t, "batch", text)))
			require.Equal(t, "completed", b.Status, "%+v", b.Errors)
			out, _ := g.requireResults(t, b, ids)
			require.Len(t, out, len(ids))
		})
	}
	b := g.client.Await(t, g.client.BeginWith(t, chatPath, g.client.Upload(t, "batch", mark+"\r\n"+lines[0]+"\r\n\n"+
		lines[1]+"\nno JSON\n")))
	require.Equal(t, "failed", b.Status)
	require.Len(t, b.Errors.Data, 1)
	require.Equal(t, new(5), b.Errors.Data[0].Line, "empty lines count")
}

func allFail(t *testing.T) {
	g := overJobs(t)
	lines, ids := chats("openai/any", 7)
	g.worker.answers(func(w http.ResponseWriter, _ *http.Request, _ asking) { answerStatus(w, 400) })
	id := g.client.Begin(t, chatPath, lines...)
	b := g.client.Await(t, id)
	require.Equal(t, "completed", b.Status)
	text := string(g.client.Do(t, http.MethodGet, "/v1/batches/"+id, "").Body)
	require.Contains(t, text, `"output_file_id":null`)
	_, failed := g.requireResults(t, b, ids)
	require.Len(t, failed, len(ids))
	for _, r := range failed {
		require.Nil(t, r.Error)
		require.Equal(t, 400, r.Response.StatusCode)
		require.NotEmpty(t, r.Response.RequestID)
		require.Equal(t, "refused", gjson.GetBytes(r.Response.Body, "error.code").Str, "%s", r.Response.Body)
	}
	require.Contains(t, g.client.Content(t, *b.ErrorFileID), `"error":null`)
}

func brokenLine(t *testing.T) {
	whole := openAI.unary(completion{text: "x", stop: "stop", usage: counts{prompt: 3, output: 2}})
	odd := map[string]string{
		"line-2": strings.Replace(whole, `"usage":`, `"used":`, 1),
		"line-4": strings.Replace(whole, `"prompt_tokens":3`, `"prompt_tokens":"three"`, 1),
		"line-6": strings.Replace(whole, `"prompt_tokens":3`, `"prompt_tokens":-3`, 1),
	}
	worse := maps.Clone(odd)
	worse["line-3"] = `{"id":"x","choi`
	worse["line-5"] = `<html>`
	worse["line-7"] = whole + whole
	answers := func(broken map[string]string) func(w http.ResponseWriter, r *http.Request, a asking) {
		return func(w http.ResponseWriter, r *http.Request, a asking) {
			if broken[a.line] == "" {
				answerText(w, a.line)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, broken[a.line])
		}
	}
	// What is no answer at all is tried again for a while, for which the job service alone can be made quick.
	t.Run("at the job service", func(t *testing.T) {
		w := newWorker(t)
		w.answers(answers(worse))
		c := overService(t, w, batches.Limits{Backoff: 10 * time.Millisecond})
		brokenLines(t, jobGateway{client: c}, worse)
	})
	t.Run("over Envoy", func(t *testing.T) {
		g := overJobs(t)
		g.worker.answers(answers(odd))
		brokenLines(t, g, odd)
	})
}

func brokenLines(t *testing.T, g jobGateway, broken map[string]string) {
	lines, ids := chats("openai/any", 9)
	b := g.client.Await(t, g.client.Begin(t, chatPath, lines...))
	require.Equal(t, "completed", b.Status)
	out, failed := g.requireResults(t, b, ids)
	var input, output int64
	for id, r := range out {
		usage := gjson.GetBytes(r.Response.Body, "usage")
		input += max(0, usage.Get("prompt_tokens").Int())
		output += usage.Get("completion_tokens").Int()
		if broken[id] == "" {
			require.EqualValues(t, 5, usage.Get("total_tokens").Int(), id)
		}
	}
	for id, r := range failed {
		require.NotEmpty(t, broken[id])
		require.NotNil(t, r.Error, "%s: %+v", id, r)
		require.NotEmpty(t, r.Error.Message)
	}
	require.Equal(t, input, b.Usage.InputTokens)
	require.Equal(t, output, b.Usage.OutputTokens)
	require.GreaterOrEqual(t, input, int64(3*(len(ids)-len(broken))))
}
