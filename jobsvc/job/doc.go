// Package job says which states batches, fine-tuning jobs and responses have, what can happen to them, and what state
// that leads to. It is pure: it holds no clock, and does nothing.
//
// A batch, by its events:
//
//		validating ──Validated──► in_progress ──Drained──► finalizing ──Finished──► completed
//		    │  │                    │      │                   │
//		    │  └────Invalid────► failed    ├──Expired──► expired
//		    │                       ▲      │
//		    │                       └──Lost┤ (also from validating, finalizing and cancelling)
//		    └───────Cancel──────► cancelling ◄──Cancel─┘ ──Stopped──► cancelled
//
//	  - validating: the worker that has claimed the batch reads the input. It moves the batch to in_progress, or to
//	    failed where the input has errors; the client may cancel it, and time may run out.
//	  - in_progress: lines are sent. The worker moves the batch to finalizing once every line has an answer, or to
//	    expired when the window is over and the output files are written.
//	  - finalizing: the worker writes the output files, and moves the batch to completed.
//	  - cancelling: no further line is sent. The worker moves the batch to cancelled once the output files are written.
//	  - completed, failed, expired and cancelled are ends. Failed is a batch that never ran, or whose input was lost.
//
// A fine-tuning job, by its state at the provider:
//
//	validating_files ──► queued ──► running ──► succeeded
//	       │               │      ▲   │ ▲
//	       │               │      │   ▼ │
//	       │               └──────┼ paused
//	       └─► failed, cancelled ◄┴── from every state but the ends
//
// A background response is queued, then in_progress under one worker after another, then completed, incomplete or
// failed. The client may cancel it before it ends.
//
// The stamps are not a log. A stamp is set by the transition into its state and by nothing else,
// and a transition that the table does not have changes nothing.
package job
