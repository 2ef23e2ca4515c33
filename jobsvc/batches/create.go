package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	maxRequest = 64 << 10  // of the body of a creation, in bytes
	maxInput   = 200 << 20 // of an input file

	maxPairs, maxPairKey, maxPairValue = 16, 64, 512 // of metadata; the latter two in characters

	minLife, maxLife = 3600, 30 * 24 * 3600 // of output files, in seconds
)

var endpoints = []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings"}

// A creation is the body of POST /v1/batches.
type creation struct {
	InputFileID        string                     `json:"input_file_id"`
	Endpoint           string                     `json:"endpoint"`
	CompletionWindow   string                     `json:"completion_window"`
	Metadata           map[string]json.RawMessage `json:"metadata"`
	OutputExpiresAfter *struct {
		Anchor  string `json:"anchor"`
		Seconds int64  `json:"seconds"`
	} `json:"output_expires_after"`
}

func (s *Service) create(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	body, err := httpapi.ReadBody(w, r, maxRequest)
	if err != nil {
		return err
	}
	again, err := rest.Idempotency(r, c, string(body))
	if err != nil {
		return err
	}
	now := s.Now()
	_, err = rest.Create(w, r, c, s.Store, again, now, func(t *store.Txn) (any, error) {
		b, err := parseCreation(body)
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
		return nil, openai.BadRequest("input_file_id", "invalid_file_purpose",
			"The purpose of the file '%s' is '%s'. Upload the input of a batch with the purpose 'batch'.", id, p)
	}
	if f.Value.Bytes > maxInput {
		return nil, openai.BadRequest("input_file_id", "file_too_large",
			"The file '%s' has %d bytes. The input of a batch has at most %d; split it into several.", id, f.Value.Bytes, maxInput)
	}
	return f, nil
}

func parseCreation(body []byte) (Batch, error) {
	var c creation
	if err := json.Unmarshal(body, &c); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return Batch{}, openai.BadRequest(wrong.Field, "invalid_type", "Invalid type for '%s': got %s instead of what is expected there.", wrong.Field, article(wrong.Value))
		}
		return Batch{}, openai.BadRequest("", "", "We could not parse the JSON body of your request. It must be one JSON object.")
	}
	for _, member := range []struct{ name, value string }{
		{"input_file_id", c.InputFileID}, {"endpoint", c.Endpoint}, {"completion_window", c.CompletionWindow},
	} {
		if member.value == "" {
			return Batch{}, openai.BadRequest(member.name, "missing_required_parameter", "Missing required parameter: '%s'.", member.name)
		}
	}
	if !slices.Contains(endpoints, c.Endpoint) {
		return Batch{}, openai.BadRequest("endpoint", "invalid_value", "Invalid value: '%s'. Supported endpoints of batches are: '%s'.",
			c.Endpoint, strings.Join(endpoints, "', '"))
	}
	if c.CompletionWindow != "24h" {
		return Batch{}, openai.BadRequest("completion_window", "invalid_value", "Invalid value: '%s'. Supported values are: '24h'.", c.CompletionWindow)
	}
	metadata, err := parseMetadata(c.Metadata)
	if err != nil {
		return Batch{}, err
	}
	b := Batch{Endpoint: c.Endpoint, InputFile: c.InputFileID, CompletionWindow: c.CompletionWindow, Metadata: metadata}
	if e := c.OutputExpiresAfter; e != nil {
		if e.Anchor != "created_at" {
			return Batch{}, openai.BadRequest("output_expires_after.anchor", "invalid_value", "Invalid value: '%s'. Supported values are: 'created_at'.", e.Anchor)
		}
		if e.Seconds < minLife || e.Seconds > maxLife {
			return Batch{}, openai.BadRequest("output_expires_after.seconds", "invalid_value",
				"Invalid value: %d. Expected a number of seconds from %d to %d.", e.Seconds, minLife, maxLife)
		}
		b.OutputLife = e.Seconds
	}
	return b, nil
}

// article puts the article before the name of a JSON type, as encoding/json has it, such as "number" or "number 1.5".
func article(kind string) string {
	if strings.HasPrefix(kind, "a") || strings.HasPrefix(kind, "o") {
		return "an " + kind
	}
	return "a " + kind
}

func parseMetadata(raw map[string]json.RawMessage) (map[string]string, error) {
	if raw == nil {
		return nil, nil
	}
	if len(raw) > maxPairs {
		return nil, openai.BadRequest("metadata", "object_above_max_properties", "Invalid 'metadata': too many pairs. Expected at most %d, but got %d instead.", maxPairs, len(raw))
	}
	metadata := make(map[string]string, len(raw))
	for key, value := range raw {
		param := "metadata." + shortened(key)
		if n := utf8.RuneCountInString(key); n > maxPairKey {
			return nil, openai.BadRequest("metadata", "string_above_max_length", "Invalid key of 'metadata': string too long. Expected at most %d characters, but got %d instead.", maxPairKey, n)
		}
		var text string
		if value[0] != '"' || json.Unmarshal(value, &text) != nil {
			return nil, openai.BadRequest(param, "invalid_type", "Invalid type for '%s': expected a string.", param)
		}
		if n := utf8.RuneCountInString(text); n > maxPairValue {
			return nil, openai.BadRequest(param, "string_above_max_length", "Invalid '%s': string too long. Expected at most %d characters, but got %d instead.", param, maxPairValue, n)
		}
		metadata[key] = text
	}
	return metadata, nil
}

// shortened returns s, or its beginning where it is long, for messages.
func shortened(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s...", strings.ToValidUTF8(s[:most], ""))
}
