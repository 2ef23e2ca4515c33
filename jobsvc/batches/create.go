package batches

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	maxRequest = 64 << 10  // of the body of a creation, in bytes
	maxInput   = 200 << 20 // of an input file

	maxName = 256 // of an id or an endpoint

	minLife, maxLife = 3600, 30 * 24 * 3600 // of output files, in seconds
)

var endpoints = []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings"}

func (s *Service) create(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	o, body, err := rest.ReadObject(w, r, maxRequest)
	if err != nil {
		return err
	}
	again, err := rest.Idempotency(r, c, string(body))
	if err != nil {
		return err
	}
	now := s.Now()
	_, err = rest.Create(w, r, c, s.Store, again, now, func(t *store.Txn) (any, error) {
		b, err := parseCreation(o)
		if err != nil {
			return nil, err
		}
		input, err := s.input(r.Context(), c, b.InputFile)
		if err != nil {
			return nil, err
		}
		b.Key, b.Status = c.Key, job.BatchValidating
		b.CreatedAt, b.ExpiresAt = now.Unix(), now.Add(s.Limits.Window).Unix()
		record := &store.Record[Batch]{Tenant: c.Tenant, ID: Kind.NewID(), Value: b}
		Kind.Create(t, record)
		t.Room(store.Files, store.FileBytes) // for its output, which is kept in any case
		files.Kind.Unchanged(t, input)
		t.Use(input.ID, record.ID)
		t.Do(queue.Put(itemOf(record, now)))
		return show(record), nil
	})
	return err
}

// input returns the caller's file, if it can be the input of a batch.
func (s *Service) input(ctx context.Context, c rest.Caller, id string) (*store.Record[files.File], error) {
	f, err := files.Kind.Get(ctx, s.Store, c.Tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Param: "id",
			Message: "No such File object: " + id}
	}
	if err != nil {
		return nil, err
	}
	if p := f.Value.Purpose; p != files.PurposeBatch {
		return nil, openai.CodeInvalidFilePurpose.On("input_file_id",
			"The purpose of the file '%s' is '%s'. Upload the input of a batch with the purpose 'batch'.", id, p)
	}
	if f.Value.Bytes > maxInput {
		return nil, openai.CodeFileTooLarge.On("input_file_id",
			"The file '%s' has %d bytes. The input of a batch has at most %d; split it into several.", id, f.Value.Bytes,
			maxInput)
	}
	return f, nil
}

func parseCreation(o *rest.Object) (Batch, error) {
	b := Batch{InputFile: o.Required("input_file_id", maxName), Endpoint: o.Required("endpoint", maxName),
		CompletionWindow: o.Required("completion_window", maxName)}
	if !slices.Contains(endpoints, b.Endpoint) {
		o.Fail("endpoint", openai.CodeInvalidValue, "Invalid value: '%s'. Supported endpoints of batches are: '%s'.",
			shortened(b.Endpoint), strings.Join(endpoints, "', '"))
	}
	if b.CompletionWindow != "24h" {
		o.Fail("completion_window", openai.CodeInvalidValue, "Invalid value: '%s'. Supported values are: '24h'.",
			shortened(b.CompletionWindow))
	}
	b.Metadata = o.Metadata()
	if e := o.Object("output_expires_after"); e != nil {
		e.OneOf("anchor", "created_at")
		b.OutputLife = int64(e.RequiredNumber("seconds", rest.Span{Low: minLife, High: maxLife, Whole: true}))
	}
	return b, o.Err()
}

// shortened returns s, or its beginning if it is long, for messages.
func shortened(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s...", strings.ToValidUTF8(s[:most], ""))
}
