package job

// A BatchStatus is the state of a batch, with OpenAI's name.
type BatchStatus string

// States of a batch.
const (
	BatchValidating BatchStatus = "validating"
	BatchFailed     BatchStatus = "failed"
	BatchInProgress BatchStatus = "in_progress"
	BatchFinalizing BatchStatus = "finalizing"
	BatchCompleted  BatchStatus = "completed"
	BatchExpired    BatchStatus = "expired"
	BatchCancelling BatchStatus = "cancelling"
	BatchCancelled  BatchStatus = "cancelled"
)

// A BatchEvent is an event in the life of a batch.
type BatchEvent string

// Events of a batch.
const (
	BatchValidated BatchEvent = "validated" // the input is good
	BatchInvalid   BatchEvent = "invalid"   // the input has errors
	BatchDrained   BatchEvent = "drained"   // every line has an answer
	BatchFinished  BatchEvent = "finished"  // the files are written
	BatchCancel    BatchEvent = "cancel"    // the client has asked to cancel
	BatchStopped   BatchEvent = "stopped"   // after a cancel: no line is running, and the files are written
	BatchTimeout   BatchEvent = "timeout"   // the window has ended, and the files are written
	BatchLost      BatchEvent = "lost"      // the input or the results are lost
)

// batches has all transitions of a batch.
var batches = map[BatchStatus]map[BatchEvent]BatchStatus{
	BatchValidating: {
		BatchValidated: BatchInProgress, BatchInvalid: BatchFailed, BatchCancel: BatchCancelling, BatchTimeout: BatchExpired,
		BatchLost: BatchFailed,
	},
	BatchInProgress: {
		BatchDrained: BatchFinalizing, BatchCancel: BatchCancelling, BatchTimeout: BatchExpired, BatchLost: BatchFailed,
	},
	BatchFinalizing: {BatchFinished: BatchCompleted, BatchLost: BatchFailed},
	BatchCancelling: {BatchStopped: BatchCancelled, BatchCancel: BatchCancelling, BatchLost: BatchFailed},
	BatchCancelled:  {BatchCancel: BatchCancelled},
}

// Next returns the state after an event. It returns false if the state has no transition for the event.
func (s BatchStatus) Next(e BatchEvent) (BatchStatus, bool) {
	next, ok := batches[s][e]
	return next, ok
}

// Over reports whether the state is final.
func (s BatchStatus) Over() bool {
	switch s {
	case BatchFailed, BatchCompleted, BatchExpired, BatchCancelled:
		return true
	}
	return false
}

// Stamps are the times at which a batch entered its states, in Unix seconds, or 0.
type Stamps struct {
	InProgressAt int64 `json:"in_progress_at,omitempty"`
	FinalizingAt int64 `json:"finalizing_at,omitempty"`
	CompletedAt  int64 `json:"completed_at,omitempty"`
	FailedAt     int64 `json:"failed_at,omitempty"`
	ExpiredAt    int64 `json:"expired_at,omitempty"`
	CancellingAt int64 `json:"cancelling_at,omitempty"`
	CancelledAt  int64 `json:"cancelled_at,omitempty"`
}

// Set sets the stamp of a state, once.
func (t *Stamps) Set(s BatchStatus, now int64) {
	if at := t.of(s); at != nil && *at == 0 {
		*at = now
	}
}

func (t *Stamps) of(s BatchStatus) *int64 {
	switch s {
	case BatchInProgress:
		return &t.InProgressAt
	case BatchFinalizing:
		return &t.FinalizingAt
	case BatchCompleted:
		return &t.CompletedAt
	case BatchFailed:
		return &t.FailedAt
	case BatchExpired:
		return &t.ExpiredAt
	case BatchCancelling:
		return &t.CancellingAt
	case BatchCancelled:
		return &t.CancelledAt
	}
	return nil
}
