package job

// A TuningStatus is the state of a fine-tuning job, with OpenAI's name.
type TuningStatus string

// States of a fine-tuning job.
const (
	TuningValidating TuningStatus = "validating_files"
	TuningQueued     TuningStatus = "queued"
	TuningRunning    TuningStatus = "running"
	TuningPaused     TuningStatus = "paused"
	TuningSucceeded  TuningStatus = "succeeded"
	TuningFailed     TuningStatus = "failed"
	TuningCancelled  TuningStatus = "cancelled"
)

// tunings has all transitions of a fine-tuning job. A provider is polled, so a job may skip states, but never goes
// back.
var tunings = map[TuningStatus][]TuningStatus{
	TuningValidating: {TuningQueued, TuningRunning, TuningPaused, TuningSucceeded, TuningFailed, TuningCancelled},
	TuningQueued:     {TuningRunning, TuningPaused, TuningSucceeded, TuningFailed, TuningCancelled},
	TuningRunning:    {TuningQueued, TuningPaused, TuningSucceeded, TuningFailed, TuningCancelled},
	TuningPaused:     {TuningQueued, TuningRunning, TuningSucceeded, TuningFailed, TuningCancelled},
}

// Becomes reports whether a job may go from one state to another.
func (s TuningStatus) Becomes(next TuningStatus) bool {
	for _, t := range tunings[s] {
		if t == next {
			return true
		}
	}
	return false
}

// Over reports whether the state is final.
func (s TuningStatus) Over() bool {
	return s == TuningSucceeded || s == TuningFailed || s == TuningCancelled
}
