package vendorbatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// A vendorBatch is a batch as OpenAI's API has it, and Azure's, which writes states with a capital and times as text.
type vendorBatch struct {
	ID         string          `json:"id"`
	Status     string          `json:"status"`
	CreatedAt  json.RawMessage `json:"created_at"`
	Metadata   json.RawMessage `json:"metadata"`
	OutputFile string          `json:"output_file_id"`
	ErrorFile  string          `json:"error_file_id"`
	Errors     json.RawMessage `json:"errors"`
	Counts     struct {
		Completed int `json:"completed"`
		Failed    int `json:"failed"`
	} `json:"request_counts"`
}

func (b *vendorBatch) status() string { return strings.ToLower(b.Status) }

// gateway returns the gateway's id of the batch, or "" if it is none of its.
func (b *vendorBatch) gateway() string { return gjson.GetBytes(b.Metadata, metadata).Str }

// created returns when the batch was created, in Unix seconds, or 0.
func (b *vendorBatch) created() int64 {
	at := gjson.ParseBytes(b.CreatedAt)
	if t, err := time.Parse(time.RFC3339, at.Str); err == nil {
		return t.Unix()
	}
	return at.Int()
}

func (b *vendorBatch) over() bool {
	switch b.status() {
	case "completed", "failed", "expired", "cancelled", "canceled":
		return true
	}
	return false
}

// refusals are OpenAI's codes of a batch that was refused as a whole, where its status is not 400.
var refusals = map[string]int{
	"token_limit_exceeded":       http.StatusTooManyRequests,
	"billing_hard_limit_reached": http.StatusPaymentRequired,
	"model_not_found":            http.StatusNotFound,
}

// refusal returns why the vendor refused the batch, or nil if it did not.
func (b *vendorBatch) refusal() *openai.Error {
	if b.status() != "failed" {
		return nil
	}
	why := gjson.GetBytes(b.Errors, "data.0")
	code := why.Get("code").Str
	e := provider.StatusError(cmp.Or(refusals[code], http.StatusBadRequest), nil,
		cmp.Or(why.Get("message").Str, "The provider refused the batch and does not say why."))
	e.Code, e.Param = cmp.Or(openai.Code(code), e.Code), why.Get("param").Str
	return e
}

func (x *OpenAI) get(ctx context.Context, c *provider.Client, id string) (*vendorBatch, error) {
	path, err := x.at(c, "/batches/"+url.PathEscape(id), nil)
	if err != nil {
		return nil, err
	}
	var b vendorBatch
	if err := c.JSON(ctx, http.MethodGet, path, nil, &b); err != nil {
		return nil, err
	}
	if b.Status == "" {
		return nil, fmt.Errorf("batch %s: %w: it has no status", id, provider.ErrNotAnAnswer)
	}
	return &b, nil
}

// Poll implements provider.Batcher.
func (x *OpenAI) Poll(ctx context.Context, c *provider.Client, id string) (provider.BatchReport, error) {
	if id == nothing {
		return provider.BatchReport{Over: true}, nil
	}
	b, err := x.get(ctx, c, id)
	if err != nil {
		return provider.BatchReport{}, err
	}
	return provider.BatchReport{Over: b.over(), Completed: b.Counts.Completed, Failed: b.Counts.Failed,
		Error: b.refusal()}, nil
}

// Cancel implements provider.Batcher.
func (x *OpenAI) Cancel(ctx context.Context, c *provider.Client, id string) error {
	if id == nothing {
		return nil
	}
	path, err := x.at(c, "/batches/"+url.PathEscape(id)+"/cancel", nil)
	if err != nil {
		return err
	}
	return CancelUnlessOver(ctx, c, path, func() (bool, error) {
		b, err := x.get(ctx, c, id)
		return err == nil && (b.over() || b.status() == "cancelling"), err
	})
}

// CancelUnlessOver asks a vendor at the path to stop a batch. That the vendor refuses is no error if the batch is
// over or about to stop.
func CancelUnlessOver(ctx context.Context, c *provider.Client, path string, over func() (bool, error)) error {
	err := c.JSON(ctx, http.MethodPost, path, nil, nil)
	if e, ok := errors.AsType[*openai.Error](err); ok &&
		(e.Status == http.StatusBadRequest || e.Status == http.StatusConflict) {
		if done, pollErr := over(); pollErr == nil && done {
			return nil
		}
	}
	return err
}

// Results implements provider.Batcher. It gives every line of the batch, each once. Answers come in the order of
// the vendor's two files. If a connection is cut, the next call begins anew. A batch that is not over has no files
// yet, and so no answers.
func (x *OpenAI) Results(ctx context.Context, c *provider.Client, id string, b provider.Batch,
	take func(provider.BatchAnswer) error) error {
	lines, err := x.Codecs.Lines(b)
	if err != nil {
		return err
	}
	return lines.Results(ctx, take, func(add func(LineAnswer) error) error {
		if id == nothing {
			return nil
		}
		at, err := x.get(ctx, c, id)
		if err != nil {
			return err
		}
		for _, file := range [...]string{at.OutputFile, at.ErrorFile} {
			if file == "" {
				continue
			}
			if err := x.read(ctx, c, file, add); err != nil {
				return err
			}
		}
		return nil
	})
}

// read gives the answers in one of the vendor's files to add.
func (x *OpenAI) read(ctx context.Context, c *provider.Client, file string, add func(LineAnswer) error) error {
	path, err := x.at(c, "/files/"+url.PathEscape(file)+"/content", nil)
	if err != nil {
		return err
	}
	answer, err := c.Do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was read, or is not wanted any more
	return ReadLines(answer.Body, func(line []byte, whole bool) error {
		a, err := x.lineAnswer(line, whole)
		if err != nil {
			return fmt.Errorf("file %s: %w", file, err)
		}
		return add(a)
	})
}

// TooLong is the answer to a line that was read only in part.
func TooLong(line []byte) LineAnswer {
	return LineAnswer{CustomID: gjson.GetBytes(line, "custom_id").Str, Error: openai.CodeUpstreamInvalidResponse.New("The provider's answer is too long to be taken.")}
}

// unrun are the codes of lines that the vendor did not get to.
var unrun = map[string]bool{"batch_expired": true, "batch_cancelled": true, "batch_canceled": true}

// lineAnswer reads a line:
// {"custom_id":...,"response":{"status_code":...,"request_id":...,"body":{...}},"error":{...}}.
func (x *OpenAI) lineAnswer(line []byte, whole bool) (LineAnswer, error) {
	if !whole {
		return TooLong(line), nil
	}
	var l struct {
		CustomID string `json:"custom_id"`
		Response struct {
			StatusCode int             `json:"status_code"`
			RequestID  string          `json:"request_id"`
			Body       json.RawMessage `json:"body"`
		} `json:"response"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return LineAnswer{}, fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	a := LineAnswer{CustomID: l.CustomID, RequestID: l.Response.RequestID}
	status, body, fault := l.Response.StatusCode, l.Response.Body, gjson.ParseBytes(l.Error)
	if fault.IsObject() && (len(body) == 0 || string(body) == "null") {
		body = []byte(`{"error":` + fault.Raw + `}`)
		if status < http.StatusBadRequest { // it has no response at all
			status = http.StatusInternalServerError
		}
	}
	switch {
	case unrun[fault.Get("code").Str], len(body) == 0, string(body) == "null":
	case status < http.StatusBadRequest:
		a.Body = body
	default:
		a.Error = x.DecodeError(status, nil, body)
	}
	return a, nil
}
