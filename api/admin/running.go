package admin

import "time"

// A RunningBatch is how far a batch is that the job service answers.
type RunningBatch struct {
	ID, Organization, Project, Key string
	Model                          string // if all its requests name the same
	Done, Total                    int
	// Answered is when a request was last answered, or when the batch could begin.
	Answered time.Time
	// Met is what its requests meet. It is zero if no worker has begun.
	Met BatchProgress
}
