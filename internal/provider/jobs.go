package provider

import (
	"context"
	"encoding/json"
	"io"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// Interfaces for a vendor's long-running work. Methods take the Client of the provider, have no state, and are safe
// for concurrent use. If the error is an *openai.Error with a status from 400 to 499, except for 408, 409, 425 and
// 429, it is final. After any other error the caller tries again later.

// A Lister lists the models that a vendor serves.
type Lister func(ctx context.Context, c *Client) ([]*configv1.ListedModel, error)

// A FineTuner trains models. It may also implement Pauser, ModelDeleter or ResultOpener.
type FineTuner interface {
	// Upload sends a training or validation file to the vendor, and returns the vendor's id of it.
	Upload(ctx context.Context, c *Client, f TrainingFile) (id string, err error)
	// Create starts a job and returns the vendor's id of it. If j.Again is set, an earlier Create of the same job may
	// have succeeded without an answer. Create then first looks for that job.
	Create(ctx context.Context, c *Client, j TuningJob) (id string, err error)
	// Poll returns the state of a job.
	Poll(ctx context.Context, c *Client, id string) (TuningReport, error)
	// Cancel asks the vendor to stop a job. Poll reports when it has stopped. For an ended job, Cancel does nothing.
	Cancel(ctx context.Context, c *Client, id string) error
}

// A Pauser pauses and resumes jobs.
type Pauser interface {
	Pause(ctx context.Context, c *Client, id string) error
	Resume(ctx context.Context, c *Client, id string) error
}

// A ModelDeleter deletes fine-tuned models, by the vendor's names. It returns no error for a missing model.
type ModelDeleter interface {
	DeleteModel(ctx context.Context, c *Client, model string) error
}

// A ResultOpener opens the result files of a job, by the vendor's ids in TuningReport.ResultFiles.
type ResultOpener interface {
	OpenResult(ctx context.Context, c *Client, id string) (io.ReadCloser, error)
}

// A TrainingFile is a file for a FineTuner.
type TrainingFile struct {
	Name string
	Size int64 // in bytes
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// A TuningJob has the parameters of a fine-tuning job. Its members are the checked members of OpenAI's request, but
// with the vendor's names of the model and the files.
type TuningJob struct {
	ID             string // the gateway's id, which the vendor should store if it can
	Again          bool
	Model          string
	TrainingFile   string
	ValidationFile string // may be empty
	Suffix         string
	Seed           *int64
	// Method is OpenAI's member method. It includes the request's deprecated member hyperparameters.
	Method Method
	// Integrations is OpenAI's array, such as [{"type":"wandb","wandb":{...}}], or nil.
	Integrations json.RawMessage
}

// A Method is a method of fine-tuning.
type Method struct {
	Type            string // supervised, dpo or reinforcement
	Hyperparameters Hyperparameters
	Grader          json.RawMessage // for reinforcement
}

// Hyperparameters are OpenAI's. Each value is a JSON number or "auto". The vendor chooses absent ones.
type Hyperparameters map[string]json.RawMessage

// A TuningReport is the state of a job at the vendor.
type TuningReport struct {
	// Status is one of OpenAI's: validating_files, queued, running, paused, succeeded, failed or cancelled.
	Status string
	// Model is the vendor's name of the new model, once it can be used.
	Model           string
	TrainedTokens   *int64
	EstimatedFinish *int64 // Unix time in seconds
	// Hyperparameters as the vendor chose them; nil if unknown.
	Hyperparameters Hyperparameters
	ResultFiles     []string
	Error           *TuningError // the reason of the failure
	// Events and Checkpoints are the ones that the vendor returns now, in any order: all, or at least the newest.
	Events      []TuningEvent
	Checkpoints []TuningCheckpoint
}

// A TuningError is the reason why a job failed.
type TuningError struct {
	Code           openai.Code
	Message, Param string
}

// A TuningEvent is one line of a job's log.
type TuningEvent struct {
	ID        string // the vendor's, or a value that is stable for this event
	CreatedAt int64  // Unix time in seconds
	Level     string // info, warn or error
	Message   string
	Type      string          // message or metrics
	Data      json.RawMessage // an object, or nil
}

// A TuningCheckpoint is a model from the middle of its training.
type TuningCheckpoint struct {
	ID        string // likewise
	CreatedAt int64
	Model     string // the vendor's name
	Step      int64
	Metrics   json.RawMessage // an object, or nil
}

// A Batcher runs batches with the vendor's own batch API.
type Batcher interface {
	// Submit sends a batch and returns the vendor's id of it. If b.Again is set, an earlier Submit of the same batch may
	// have succeeded without an answer. Submit then first looks for that batch.
	Submit(ctx context.Context, c *Client, b Batch) (id string, err error)
	// Poll returns the state of a batch.
	Poll(ctx context.Context, c *Client, id string) (BatchReport, error)
	// Results calls take for each answered line of an ended batch, in any order, and stops at its error.
	Results(ctx context.Context, c *Client, id string, b Batch, take func(BatchAnswer) error) error
	// Cancel asks the vendor to stop a batch. Poll reports when it has stopped. For an ended batch, Cancel does nothing.
	Cancel(ctx context.Context, c *Client, id string) error
}

// A Batch is a batch whose lines are all for one target.
type Batch struct {
	ID       string // the gateway's id, which the vendor should store if it can
	Again    bool
	Since    int64  // first attempt to submit the batch, Unix time in seconds
	Endpoint string // OpenAI's, such as /v1/chat/completions
	Target   Target
	Count    int // of the lines
	// Carrier writes and reads the data in the ids of calls, for the client whose batch it is.
	Carrier openai.Carrier
	// Each calls take for each line, in order, with its number and OpenAI's request, and stops at its error. The request
	// is valid until take returns.
	Each func(ctx context.Context, take func(line int, request []byte) error) error
	// Request returns the request of one line.
	Request func(ctx context.Context, line int) ([]byte, error)
}

// A BatchReport is the state of a batch at the vendor.
type BatchReport struct {
	Over              bool // no more lines will be answered
	Completed, Failed int  // lines so far; 0 if unknown
	// Error is the reason why the vendor refused the whole batch.
	Error *openai.Error
}

// A BatchAnswer is the result of one line: OpenAI's answer or error with its status, or neither if the vendor did not
// run the line.
type BatchAnswer struct {
	Line      int
	Status    int // 0: the line was not run
	RequestID string
	Body      []byte
	Usage     openai.Usage
}
