package batches

import (
	"cmp"
	"fmt"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Kind are batches.
var Kind = store.Kind[Batch]{Name: "batches", Prefix: "batch_", Once: once, Ended: endedAt, Counts: counts}

// once are the members that can be large and never change.
func once(b *Batch) map[string]any { return map[string]any{"metadata": &b.Metadata} }

// endedAt returns when a batch came to its end, or 0.
func endedAt(b *Batch) int64 {
	if !b.Status.Over() {
		return 0
	}
	return cmp.Or(b.CompletedAt, b.FailedAt, b.ExpiredAt, b.CancelledAt, b.ExpiresAt)
}

// recordSize is about what a batch takes in etcd besides what its tenant has a say in.
const recordSize = 1 << 10

// counts returns what a batch counts for.
func counts(b *Batch) (key string, a store.Amounts) {
	a[store.KeptBatches], a[store.RecordBytes] = 1, recordSize
	if !b.Status.Over() {
		a[store.OpenBatches] = 1
	}
	for name, value := range b.Metadata {
		a[store.RecordBytes] += int64(len(name) + len(value))
	}
	for _, p := range b.Errors {
		a[store.RecordBytes] += int64(len(p.Code) + len(p.Message) + len(p.Param))
	}
	return b.Key, a
}

// A Batch is the record of a batch. Its size does not depend on that of the input.
type Batch struct {
	Endpoint         string            `json:"endpoint"`
	InputFile        string            `json:"input_file"`
	CompletionWindow string            `json:"completion_window"`
	Key              string            `json:"key"` // on whose behalf lines are asked: the name of a Key
	Metadata         map[string]string `json:"metadata,omitzero"`
	OutputLife       int64             `json:"output_life,omitempty"` // of the files, in seconds; 0: 30 days

	Status    job.BatchStatus `json:"status"`
	CreatedAt int64           `json:"created_at"`
	ExpiresAt int64           `json:"expires_at"`
	job.Stamps

	Model  string       `json:"model,omitempty"` // where all lines name the same
	Errors []Problem    `json:"errors,omitempty"`
	Counts Counts       `json:"counts"`
	Usage  openai.Usage `json:"usage,omitzero"`
	Charge Charge       `json:"charge,omitzero"`
	Met    *Met         `json:"met,omitempty"`

	Head       string   `json:"head,omitempty"` // the newest segment
	Closing    *Closing `json:"closing,omitempty"`
	Native     *Native  `json:"native,omitempty"`
	OutputFile string   `json:"output_file,omitempty"`
	ErrorFile  string   `json:"error_file,omitempty"`

	// Epoch and Write name the newest write of a worker: by them it knows whether one whose answer did not come was made.
	Epoch int64 `json:"epoch,omitempty"`
	Write int64 `json:"write,omitempty"`
}

// Counts are numbers of lines.
type Counts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// A Problem is why a batch failed. Line counts from 1; 0 is none.
type Problem struct {
	Code    openai.Code `json:"code"`
	Line    int         `json:"line,omitempty"`
	Message string      `json:"message"`
	Param   string      `json:"param,omitempty"`
}

// A reason is why no more lines are asked.
type reason string

const (
	drained   reason = "drained"   // every line has an answer
	cancelled reason = "cancelled" // the client has asked for it
	expired   reason = "expired"   // the window is over
	lost      reason = "lost"      // the input is gone, or answers are
)

// A Closing is a batch whose answers are complete: its chain does not grow any more, and what is left is to write the
// files from it, under these ids.
type Closing struct {
	Reason reason `json:"reason"`
	Output string `json:"output"`
	Error  string `json:"error"`
}

// done is how many lines have an answer.
func (b *Batch) done() int { return b.Counts.Completed + b.Counts.Failed }

// to makes the transition of an event.
func (b *Batch) to(e job.BatchEvent, now time.Time) error {
	next, ok := b.Status.Next(e)
	if !ok {
		return fmt.Errorf("a batch that is %s cannot become what %q leads to", b.Status, e)
	}
	b.Status = next
	b.Stamps.Set(next, now.Unix())
	return nil
}

// wire is OpenAI's batch object.
type wire struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"` // batch
	Endpoint         string            `json:"endpoint"`
	Model            *string           `json:"model"`
	Errors           *wireErrors       `json:"errors"`
	InputFileID      string            `json:"input_file_id"`
	CompletionWindow string            `json:"completion_window"`
	Status           job.BatchStatus   `json:"status"`
	OutputFileID     *string           `json:"output_file_id"`
	ErrorFileID      *string           `json:"error_file_id"`
	CreatedAt        int64             `json:"created_at"`
	InProgressAt     *int64            `json:"in_progress_at"`
	ExpiresAt        int64             `json:"expires_at"`
	FinalizingAt     *int64            `json:"finalizing_at"`
	CompletedAt      *int64            `json:"completed_at"`
	FailedAt         *int64            `json:"failed_at"`
	ExpiredAt        *int64            `json:"expired_at"`
	CancellingAt     *int64            `json:"cancelling_at"`
	CancelledAt      *int64            `json:"cancelled_at"`
	RequestCounts    Counts            `json:"request_counts"`
	Usage            *wireUsage        `json:"usage"`
	Metadata         map[string]string `json:"metadata"`
}

type wireErrors struct {
	Object string        `json:"object"` // list
	Data   []wireProblem `json:"data"`
}

type wireProblem struct {
	Code    openai.Code `json:"code"`
	Message string      `json:"message"`
	Param   *string     `json:"param"`
	Line    *int        `json:"line"`
}

type wireUsage struct {
	InputTokens        int64 `json:"input_tokens"`
	InputTokensDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens        int64 `json:"output_tokens"`
	OutputTokensDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int64 `json:"total_tokens"`
}

// show returns what clients see of a batch.
func show(r *store.Record[Batch]) wire {
	b := &r.Value
	return wire{
		ID: r.ID, Object: "batch", Endpoint: b.Endpoint, Model: orNull(b.Model), Errors: problemsOf(b.Errors),
		InputFileID: b.InputFile, CompletionWindow: b.CompletionWindow, Status: b.Status,
		OutputFileID: orNull(b.OutputFile), ErrorFileID: orNull(b.ErrorFile),
		CreatedAt: b.CreatedAt, InProgressAt: orNull(b.InProgressAt), ExpiresAt: b.ExpiresAt,
		FinalizingAt: orNull(b.FinalizingAt),
		CompletedAt:  orNull(b.CompletedAt), FailedAt: orNull(b.FailedAt), ExpiredAt: orNull(b.ExpiredAt),
		CancellingAt: orNull(b.CancellingAt), CancelledAt: orNull(b.CancelledAt),
		RequestCounts: b.Native.progress(b.Counts), Usage: usageOf(b.Usage), Metadata: b.Metadata,
	}
}

// orNull returns nil for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func problemsOf(all []Problem) *wireErrors {
	if len(all) == 0 {
		return nil
	}
	e := &wireErrors{Object: "list"}
	for _, p := range all {
		e.Data = append(e.Data, wireProblem{Code: p.Code, Message: p.Message, Param: orNull(p.Param), Line: orNull(p.Line)})
	}
	return e
}

func usageOf(u openai.Usage) *wireUsage {
	if u.IsZero() {
		return nil
	}
	w := &wireUsage{InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, TotalTokens: u.TotalTokens}
	w.InputTokensDetails.CachedTokens = u.CachedTokens
	w.OutputTokensDetails.ReasoningTokens = u.ReasoningTokens
	return w
}

// plus returns the sum of two usages.
func plus(a, b openai.Usage) openai.Usage {
	sum, more := usage.Used{Usage: a}, usage.Used{Usage: b}
	for k := range usage.All {
		*sum.At(k) += *more.At(k)
	}
	sum.TotalTokens += b.TotalTokens
	return sum.Usage
}
