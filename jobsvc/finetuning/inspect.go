package finetuning

import "github.com/modelgate/modelgate/jobsvc/store"

// Show returns a job as the clients' API shows it, for JSON.
func Show(r *store.Record[Job]) any { return show(r) }

// ShowEvent returns an event as the clients' API shows it, for JSON.
func ShowEvent(r *store.Record[Event]) any { return showEvent(r) }

// Events returns the kind of the events of a job.
func Events(id string) store.Kind[Event] { return eventKind.Under(id) }
