package finetuning

import (
	"context"

	"github.com/modelgate/modelgate/jobsvc/archive"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Show returns a job as the clients' API shows it, for JSON.
func Show(r *store.Record[Job]) any { return show(r) }

// ShowEvent returns an event as the clients' API shows it, for JSON.
func ShowEvent(r *store.Record[Event]) any { return showEvent(r) }

// Events returns a page of the events of a job, newest first, and whether more follow.
func Events(ctx context.Context, s *store.Store, of *store.Record[Job], p store.Page) ([]*store.Record[Event], bool,
	error) {
	return store.ListParts(ctx, s, Kind, of, eventKind, p)
}

// Archived returns how jobs are archived, with their events and checkpoints.
func Archived() archive.Kind {
	return archive.Kind{Name: Kind.Name, Queue: queueKind, Quota: store.KeptFineTuningJobs, Objects: Kind}
}
