package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// A BatchObject is a batch as the clients' API writes it, as far as people are shown it. Times are seconds, or 0.
type BatchObject struct {
	TenantObject `json:"-"`

	ID           string `json:"id"`
	Endpoint     string `json:"endpoint"`
	Model        string `json:"model"`
	Status       string `json:"status"`
	OutputFile   string `json:"output_file_id"`
	ErrorFile    string `json:"error_file_id"`
	CreatedAt    int64  `json:"created_at"`
	InProgressAt int64  `json:"in_progress_at"`
	FinalizingAt int64  `json:"finalizing_at"`
	CompletedAt  int64  `json:"completed_at"`
	FailedAt     int64  `json:"failed_at"`
	ExpiredAt    int64  `json:"expired_at"`
	CancelledAt  int64  `json:"cancelled_at"`
	ExpiresAt    int64  `json:"expires_at"`
	Usage        *struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
	Counts struct {
		Total     int64 `json:"total"`
		Completed int64 `json:"completed"`
		Failed    int64 `json:"failed"`
	} `json:"request_counts"`
	Errors struct {
		Data []struct {
			Message string `json:"message"`
		} `json:"data"`
	} `json:"errors"`
}

// Batch reads the object as a batch.
func (o TenantObject) Batch() (BatchObject, error) {
	b := BatchObject{}
	if err := json.Unmarshal(o.Object, &b); err != nil {
		return b, fmt.Errorf("read a batch: %w", err)
	}
	b.TenantObject = o
	return b, nil
}

// Done is how many of its requests have an answer.
func (b BatchObject) Done() int64 { return b.Counts.Completed + b.Counts.Failed }

// Ended is when it came to its end, or 0.
func (b BatchObject) Ended() int64 {
	return cmp.Or(b.CompletedAt, b.FailedAt, b.ExpiredAt, b.CancelledAt)
}
