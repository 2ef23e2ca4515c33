package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func jobs() []testCase {
	return []testCase{
		{"files", files},
		{"an upload in parts", parts},
		{"a batch", batch},
		{"a batch that is wrong says where", wrongBatch},
		{"a batch is cancelled", cancelledBatch},
		{"list of batches in pages", batchPages},
		{"a fine-tuning job", tuningJob},
		{"webhooks", webhooks},
		{"unknown ids", unknownIDs},
		{"a file for another purpose", wrongPurpose},
		{"an idempotency key", idempotency},
	}
}

// lines is the input of a batch that says each text to a model. The custom_id is the text.
func lines(model string, texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&b,
			`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":%q}]}}`+"\n", text, model, text)
	}
	return b.String()
}

// examples is a file to train with. All answers begin and end alike, which is what the built-in provider learns.
func examples(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b,
			`{"messages":[{"role":"user","content":"question %d"},{"role":"assistant","content":"Arr, %d it be, matey!"}]}`+
				"\n", i, i*i)
	}
	return b.String()
}

func upload(ctx context.Context, c openai.Client, content string, purpose openai.FilePurpose) (*openai.FileObject,
	error) {
	return c.Files.New(ctx, openai.FileNewParams{File: openai.File(strings.NewReader(content), "lines.jsonl",
		"application/jsonl"), Purpose: purpose})
}

func batchOf(file string) openai.BatchNewParams {
	return openai.BatchNewParams{InputFileID: file, Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions,
		CompletionWindow: openai.BatchNewParamsCompletionWindow24h}
}

func begin(ctx context.Context, c openai.Client, model string, texts ...string) (*openai.Batch, error) {
	file, err := upload(ctx, c, lines(model, texts...), openai.FilePurposeBatch)
	if err != nil {
		return nil, describe(err)
	}
	return c.Batches.New(ctx, batchOf(file.ID))
}

// awaitBatch waits until a batch is over.
func awaitBatch(ctx context.Context, c openai.Client, id string) (*openai.Batch, error) {
	return await(ctx, func() (*openai.Batch, bool, error) {
		b, err := c.Batches.Get(ctx, id)
		return b, err == nil && slices.Contains([]string{"completed", "failed", "cancelled", "expired"}, string(b.Status)),
			err
	})
}

func await[T any](ctx context.Context, look func() (T, bool, error)) (T, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		v, over, err := look()
		if over || err != nil {
			return v, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return v, fmt.Errorf("%w: %+v", ctx.Err(), v)
		}
	}
}

// A result is a line of an output or error file.
type result struct {
	CustomID string `json:"custom_id"`
	Response *struct {
		StatusCode int `json:"status_code"`
		Body       openai.ChatCompletion
	}
	Error *struct{ Code string }
}

// results returns the lines of a file by custom_id, of which none is there twice; of no file, none.
func results(ctx context.Context, c openai.Client, file string) (map[string]result, error) {
	found := map[string]result{}
	if file == "" {
		return found, nil
	}
	text, err := content(ctx, c, file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("%w: %s", err, line)
		}
		if _, twice := found[r.CustomID]; twice {
			return nil, fmt.Errorf("%s is there twice", r.CustomID)
		}
		found[r.CustomID] = r
	}
	return found, nil
}

func content(ctx context.Context, c openai.Client, file string) (string, error) {
	response, err := c.Files.Content(ctx, file)
	if err != nil {
		return "", describe(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return string(b), err
}

func files(ctx context.Context, g gateway) error {
	c := g.client()
	var made []string
	for i := range 5 {
		f, err := upload(ctx, c, fmt.Sprint("some bytes ", i), openai.FilePurposeUserData)
		if err != nil {
			return describe(err)
		}
		made = append(made, f.ID)
	}
	pages := c.Files.ListAutoPaging(ctx, openai.FileListParams{Limit: openai.Int(2), Purpose: openai.String("user_data")})
	var listed []string
	for pages.Next() {
		listed = append(listed, pages.Current().ID)
	}
	slices.Reverse(made)
	err := errors.Join(pages.Err(), check(len(listed) >= 5 && slices.Equal(listed[:5], made), "listed %v, made %v",
		listed, made))
	text, readErr := content(ctx, c, made[0])
	err = errors.Join(err, readErr, equal("content", text, "some bytes 4"))
	for _, id := range made {
		gone, deleteErr := c.Files.Delete(ctx, id)
		if deleteErr != nil {
			return errors.Join(err, describe(deleteErr))
		}
		_, getErr := c.Files.Get(ctx, id)
		err = errors.Join(err, check(gone.Deleted, "not deleted"), notFound(getErr))
	}
	return err
}

func notFound(err error) error {
	var e *openai.Error
	return errors.Join(check(errors.As(err, &e) && e.StatusCode == http.StatusNotFound, "not a 404: %v", err))
}

func parts(ctx context.Context, g gateway) error {
	c := g.client()
	begun, err := c.Uploads.New(ctx, openai.UploadNewParams{Bytes: 9, Filename: "parts.txt", MimeType: "text/plain",
		Purpose: openai.FilePurposeUserData})
	if err != nil {
		return describe(err)
	}
	var ids []string
	for _, text := range []string{"first ", "two"} {
		part, err := c.Uploads.Parts.New(ctx, begun.ID, openai.UploadPartNewParams{Data: strings.NewReader(text)})
		if err != nil {
			return describe(err)
		}
		ids = append(ids, part.ID)
	}
	done, err := c.Uploads.Complete(ctx, begun.ID, openai.UploadCompleteParams{PartIDs: ids})
	if err != nil {
		return describe(err)
	}
	text, err := content(ctx, c, done.File.ID)
	return errors.Join(err, equal("content", text, "first two"), equal("status", string(done.Status), "completed"))
}

func batch(ctx context.Context, g gateway) error {
	c := g.client()
	var texts []string
	for i := range 40 {
		texts = append(texts, fmt.Sprintf("text number %d, wörld", i))
	}
	begun, err := begin(ctx, c, echo, texts...)
	if err != nil {
		return describe(err)
	}
	done, err := awaitBatch(ctx, c, begun.ID)
	if err != nil {
		return describe(err)
	}
	out, err := results(ctx, c, done.OutputFileID)
	err = errors.Join(err, equal("status", string(done.Status), "completed"), equal("lines", len(out), len(texts)),
		equal("completed", done.RequestCounts.Completed, int64(len(texts))), equal("failed", done.RequestCounts.Failed, 0),
		equal("errors", done.ErrorFileID, ""))
	for _, text := range texts {
		r := out[text].Response
		if r == nil || r.StatusCode != http.StatusOK || len(r.Body.Choices) != 1 {
			return errors.Join(err, fmt.Errorf("%s: %+v", text, out[text]))
		}
		err = errors.Join(err, equal("text", r.Body.Choices[0].Message.Content, text))
	}
	_, cancelErr := c.Batches.Cancel(ctx, begun.ID)
	var e *openai.Error
	return errors.Join(err, check(errors.As(cancelErr, &e) && e.StatusCode == http.StatusConflict, "cancelled again: %v",
		cancelErr))
}

func wrongBatch(ctx context.Context, g gateway) error {
	c := g.client()
	file, err := upload(ctx, c, lines(echo, "first", "second", "first")+"no JSON\n", openai.FilePurposeBatch)
	if err != nil {
		return describe(err)
	}
	begun, err := c.Batches.New(ctx, batchOf(file.ID))
	if err != nil {
		return describe(err)
	}
	done, err := awaitBatch(ctx, c, begun.ID)
	if err != nil {
		return describe(err)
	}
	var found []string
	for _, e := range done.Errors.Data {
		found = append(found, fmt.Sprint(e.Code, " ", e.Line))
	}
	return errors.Join(equal("status", string(done.Status), "failed"),
		check(slices.Contains(found, "duplicate_custom_id 3") && slices.Contains(found, "invalid_json_line 4"), "errors %v",
			found))
}

func cancelledBatch(ctx context.Context, g gateway) error {
	c := g.client()
	var texts []string
	for i := range 300 {
		texts = append(texts, fmt.Sprint("slow ", i))
	}
	begun, err := begin(ctx, c, "claude/slow", texts...)
	if err != nil {
		return describe(err)
	}
	_, err = await(ctx, func() (*openai.Batch, bool, error) {
		b, err := c.Batches.Get(ctx, begun.ID)
		return b, err == nil && b.Status != openai.BatchStatusValidating, err
	})
	if err != nil {
		return describe(err)
	}
	if _, err := c.Batches.Cancel(ctx, begun.ID); err != nil {
		return describe(err)
	}
	done, err := awaitBatch(ctx, c, begun.ID)
	if err != nil {
		return describe(err)
	}
	out, err := results(ctx, c, done.OutputFileID)
	failed, failedErr := results(ctx, c, done.ErrorFileID)
	err = errors.Join(err, failedErr, equal("status", string(done.Status), "cancelled"),
		equal("lines", len(out)+len(failed), len(texts)))
	for id, r := range failed {
		_, both := out[id]
		err = errors.Join(err, check(!both && r.Error != nil && r.Error.Code == "batch_cancelled", "%s: %+v", id, r))
	}
	return err
}

func batchPages(ctx context.Context, g gateway) error {
	c := g.client()
	var made []string
	for range 5 {
		b, err := begin(ctx, c, echo, "hi")
		if err != nil {
			return describe(err)
		}
		made = append(made, b.ID)
	}
	slices.Reverse(made)
	var listed []string
	pages := c.Batches.ListAutoPaging(ctx, openai.BatchListParams{Limit: openai.Int(2)})
	for pages.Next() {
		listed = append(listed, pages.Current().ID)
	}
	page, err := c.Batches.List(ctx, openai.BatchListParams{Limit: openai.Int(100)})
	if err != nil {
		return describe(err)
	}
	return errors.Join(pages.Err(), check(len(listed) >= 5 && slices.Equal(listed[:5], made), "listed %v, made %v",
		listed, made),
		equal("has_more", page.HasMore, false), equal("listed at once", len(page.Data), len(listed)))
}

// tune trains a model and returns the job when it is over.
func tune(ctx context.Context, c openai.Client) (*openai.FineTuningJob, error) {
	file, err := upload(ctx, c, examples(12), openai.FilePurposeFineTune)
	if err != nil {
		return nil, describe(err)
	}
	job, err := c.FineTuning.Jobs.New(ctx, openai.FineTuningJobNewParams{Model: echo, TrainingFile: file.ID,
		Suffix: openai.String("go")})
	if err != nil {
		return nil, describe(err)
	}
	return await(ctx, func() (*openai.FineTuningJob, bool, error) {
		j, err := c.FineTuning.Jobs.Get(ctx, job.ID)
		return j, err == nil && slices.Contains([]string{"succeeded", "failed", "cancelled"}, string(j.Status)), err
	})
}

func tuningJob(ctx context.Context, g gateway) error {
	c := g.client()
	done, err := tune(ctx, c)
	if err != nil {
		return describe(err)
	}
	err = equal("status", string(done.Status), "succeeded")
	events := c.FineTuning.Jobs.ListEventsAutoPaging(ctx, done.ID,
		openai.FineTuningJobListEventsParams{Limit: openai.Int(2)})
	seen := map[string]bool{}
	for events.Next() {
		err = errors.Join(err, check(!seen[events.Current().ID], "an event twice"))
		seen[events.Current().ID] = true
	}
	checkpoints, listErr := c.FineTuning.Jobs.Checkpoints.List(ctx, done.ID, openai.FineTuningJobCheckpointListParams{})
	if listErr != nil {
		return describe(listErr)
	}
	err = errors.Join(err, events.Err(), check(len(seen) > 2, "%d events", len(seen)),
		check(len(checkpoints.Data) > 0, "no checkpoint"))

	model := done.FineTunedModel
	choice, askErr := only(c.Chat.Completions.New(ctx, ask(model, "how many ships")))
	said := choice.Message.Content
	err = errors.Join(err, askErr, check(strings.HasPrefix(said, "Arr, ") && strings.HasSuffix(said, " it be, matey!"),
		"said %q", said))
	list, listErr := c.Models.List(ctx)
	if listErr != nil {
		return describe(listErr)
	}
	err = errors.Join(err, check(slices.ContainsFunc(list.Data, func(m openai.Model) bool { return m.ID == model }),
		"the model is not listed"))
	if _, deleteErr := c.Models.Delete(ctx, model); deleteErr != nil {
		return errors.Join(err, describe(deleteErr))
	}
	_, getErr := c.Models.Get(ctx, model)
	_, chatErr := c.Chat.Completions.New(ctx, ask(model, "hi"))
	return errors.Join(err, notFound(getErr), notFound(chatErr))
}

func webhooks(ctx context.Context, g gateway) error {
	c := g.client(option.WithWebhookSecret(os.Getenv("WEBHOOKS_SECRET")))
	begun, err := begin(ctx, c, echo, "hi")
	if err != nil {
		return describe(err)
	}
	job, err := tune(ctx, c)
	if err != nil {
		return describe(err)
	}
	for id, kind := range map[string]string{begun.ID: "batch.completed", job.ID: "fine_tuning.job.succeeded"} {
		body, header, err := delivered(ctx, id)
		if err != nil {
			return err
		}
		event, err := c.Webhooks.Unwrap(body, header)
		if err != nil {
			return err
		}
		_, forged := c.Webhooks.Unwrap(append(body, ' '), header)
		if err := errors.Join(equal("type", event.Type, kind), equal("id", event.Data.ID, id),
			check(forged != nil, "another body was accepted")); err != nil {
			return err
		}
	}
	return nil
}

// delivered returns the delivery that told of an object's end.
func delivered(ctx context.Context, id string) ([]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv("WEBHOOKS_URL")+"/delivered/"+id, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	var found struct {
		Body    string
		Headers map[string]string
	}
	err = json.NewDecoder(response.Body).Decode(&found)
	header := http.Header{}
	for name, value := range found.Headers {
		header.Set(name, value)
	}
	return []byte(found.Body), header, err
}

func unknownIDs(ctx context.Context, g gateway) error {
	c := g.client()
	_, file := c.Files.Get(ctx, "file-unknown")
	_, content := c.Files.Content(ctx, "file-unknown")
	_, deleted := c.Files.Delete(ctx, "file-unknown")
	_, batch := c.Batches.Get(ctx, "batch_unknown")
	_, cancelled := c.Batches.Cancel(ctx, "batch_unknown")
	_, job := c.FineTuning.Jobs.Get(ctx, "ftjob-unknown")
	_, events := c.FineTuning.Jobs.ListEvents(ctx, "ftjob-unknown", openai.FineTuningJobListEventsParams{})
	_, model := c.Models.Delete(ctx, "nobody/nothing")
	var all error
	for _, err := range []error{file, content, deleted, batch, cancelled, job, events, model} {
		all = errors.Join(all, notFound(err))
	}
	return all
}

func wrongPurpose(ctx context.Context, g gateway) error {
	c := g.client()
	file, err := upload(ctx, c, examples(12), openai.FilePurposeFineTune)
	if err != nil {
		return describe(err)
	}
	_, err = c.Batches.New(ctx, batchOf(file.ID))
	var e *openai.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("not an error of the API: %w", err)
	}
	return errors.Join(equal("status", e.StatusCode, http.StatusBadRequest), equal("param", e.Param, "input_file_id"))
}

func idempotency(ctx context.Context, g gateway) error {
	c := g.client()
	file, err := upload(ctx, c, lines(echo, "hi"), openai.FilePurposeBatch)
	if err != nil {
		return describe(err)
	}
	key := option.WithHeader("Idempotency-Key", fmt.Sprint("go-", time.Now().UnixNano()))
	first, err := c.Batches.New(ctx, batchOf(file.ID), key)
	if err != nil {
		return describe(err)
	}
	again, err := c.Batches.New(ctx, batchOf(file.ID), key)
	if err != nil {
		return describe(err)
	}
	other := batchOf(file.ID)
	other.Metadata = map[string]string{"other": "body"}
	asked := 0
	_, err = c.Batches.New(ctx, other, key, option.WithMaxRetries(2),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			asked++
			return next(r)
		}))
	var e *openai.Error
	return errors.Join(equal("replayed", again.ID, first.ID),
		check(bytes.Equal([]byte(again.RawJSON()), []byte(first.RawJSON())), "another answer"),
		check(errors.As(err, &e) && e.StatusCode == http.StatusConflict, "not a conflict: %v", err),
		equal("tries", asked, 1))
}
