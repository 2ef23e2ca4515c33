package provider

import (
	"context"
	"encoding/json"
	"io"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// What a vendor offers for long work. Methods take the Client of the provider that they are to ask, hold no state, and
// are safe for concurrent use. An error that is an *openai.Error with a status from 400 to 499, but 408, 409, 425 and
// 429, is the vendor's last word; after any other error the caller tries again later.

// A Lister lists the models that a vendor serves.
type Lister func(ctx context.Context, c *Client) ([]*configv1.ListedModel, error)

// A FineTuner trains models. One that can do more also implements Pauser, ModelDeleter or ResultOpener.
type FineTuner interface {
	// Upload gives the vendor a training or validation file, and returns the vendor's id of it.
	Upload(ctx context.Context, c *Client, f TrainingFile) (id string, err error)
	// Create starts a job and returns the vendor's id of it. Where j.Again is set, an earlier Create of the same job may
	// have succeeded unheard: it looks for that job first.
	Create(ctx context.Context, c *Client, j TuningJob) (id string, err error)
	// Poll says how a job stands.
	Poll(ctx context.Context, c *Client, id string) (TuningReport, error)
	// Cancel asks the vendor to stop a job; Poll says when it has. Of a job that is over, it does nothing.
	Cancel(ctx context.Context, c *Client, id string) error
}

// A Pauser pauses and resumes jobs.
type Pauser interface {
	Pause(ctx context.Context, c *Client, id string) error
	Resume(ctx context.Context, c *Client, id string) error
}

// A ModelDeleter deletes fine-tuned models, by the vendor's own names. One that is gone already is no error.
type ModelDeleter interface {
	DeleteModel(ctx context.Context, c *Client, model string) error
}

// A ResultOpener reads files that a job has left, by the vendor's ids of TuningReport.ResultFiles.
type ResultOpener interface {
	OpenResult(ctx context.Context, c *Client, id string) (io.ReadCloser, error)
}

// A TrainingFile is a file for a FineTuner.
type TrainingFile struct {
	Name string
	Size int64 // in bytes
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// A TuningJob is what a fine-tuning job is created with. Its members are those of OpenAI's request, checked, but for
// the names of model and files, which are the vendor's.
type TuningJob struct {
	ID             string // the gateway's, which the vendor is to keep where it has room
	Again          bool
	Model          string
	TrainingFile   string
	ValidationFile string // empty: none
	Suffix         string
	Seed           *int64
	// Method is OpenAI's object of that name, with the older member hyperparameters of the request moved into it.
	Method Method
	// Integrations is OpenAI's array, such as [{"type":"wandb","wandb":{...}}], or nil.
	Integrations json.RawMessage
}

// A Method is how a model is tuned.
type Method struct {
	Type            string // supervised, dpo or reinforcement
	Hyperparameters Hyperparameters
	Grader          json.RawMessage // of reinforcement
}

// Hyperparameters are OpenAI's. Each value is a JSON number or "auto"; one that is absent is the vendor's own choice.
type Hyperparameters map[string]json.RawMessage

// A TuningReport is how a job stands at the vendor.
type TuningReport struct {
	// Status is one of OpenAI's: validating_files, queued, running, paused, succeeded, failed or cancelled.
	Status string
	// Model is the vendor's name of what was made, once it can be used.
	Model           string
	TrainedTokens   *int64
	EstimatedFinish *int64 // Unix time in seconds
	// Hyperparameters as the vendor chose them; nil where it does not say.
	Hyperparameters Hyperparameters
	ResultFiles     []string
	Error           *TuningError // why it failed
	// Events and Checkpoints are those that the vendor tells of now, in any order: all, or at least the newest.
	Events      []TuningEvent
	Checkpoints []TuningCheckpoint
}

// A TuningError is why a job failed.
type TuningError struct{ Code, Message, Param string }

// A TuningEvent is one line of a job's log.
type TuningEvent struct {
	ID        string // the vendor's, or anything that is always the same for this event of the job
	CreatedAt int64  // Unix time in seconds
	Level     string // info, warn or error
	Message   string
	Type      string          // message or metrics
	Data      json.RawMessage // an object, or nil
}

// A TuningCheckpoint is a model as it was in the middle of its training.
type TuningCheckpoint struct {
	ID        string // likewise
	CreatedAt int64
	Model     string // the vendor's name
	Step      int64
	Metrics   json.RawMessage // an object, or nil
}

// A Batcher runs batches at the vendor's own batch API.
type Batcher interface {
	// Submit hands a batch over and returns the vendor's id of it. Where b.Again is set, an earlier Submit of the same
	// batch may have succeeded unheard: it looks for that first.
	Submit(ctx context.Context, c *Client, b Batch) (id string, err error)
	// Poll says how a batch stands.
	Poll(ctx context.Context, c *Client, id string) (BatchReport, error)
	// Results gives each answered line of a batch that is over, in any order, to take, and stops at its error.
	Results(ctx context.Context, c *Client, id string, b Batch, take func(BatchAnswer) error) error
	// Cancel asks the vendor to stop a batch; Poll says when it has. Of a batch that is over, it does nothing.
	Cancel(ctx context.Context, c *Client, id string) error
}

// A Batch is the lines of a batch, all for one target.
type Batch struct {
	ID       string // the gateway's, which the vendor is to keep where it has room
	Again    bool
	Since    int64  // when the batch was first tried to be submitted, Unix time in seconds
	Endpoint string // OpenAI's, such as /v1/chat/completions
	Target   Target
	Count    int // of the lines
	// Each gives each line's number and OpenAI's request to take, in order, and stops at its error. The request is valid
	// until take returns.
	Each func(ctx context.Context, take func(line int, request []byte) error) error
	// Request returns the request of one line.
	Request func(ctx context.Context, line int) ([]byte, error)
}

// A BatchReport is how a batch stands at the vendor.
type BatchReport struct {
	Over              bool // nothing more will be answered
	Completed, Failed int  // lines so far; 0 where the vendor does not say
	// Error is why the vendor refused the batch as a whole.
	Error *openai.Error
}

// A BatchAnswer is what became of one line: OpenAI's answer with its status, the error included, or, where the vendor
// did not get to it, neither.
type BatchAnswer struct {
	Line      int
	Status    int // 0: the line was not run
	RequestID string
	Body      []byte
	Usage     openai.Usage
}
