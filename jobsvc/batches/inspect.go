package batches

import (
	"github.com/modelgate/modelgate/jobsvc/archive"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Show returns a batch as the clients' API shows it, for JSON.
func Show(r *store.Record[Batch]) any { return show(r) }

// Archived returns how batches are archived: those whose segments are yet to be removed stay.
func Archived() archive.Kind {
	return archive.Kind{Name: Kind.Name, Queue: kindQueue, Quota: store.KeptBatches, Objects: Kind}
}
