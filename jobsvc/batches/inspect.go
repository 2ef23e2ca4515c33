package batches

import "github.com/modelgate/modelgate/jobsvc/store"

// Show returns a batch as the clients' API shows it, for JSON.
func Show(r *store.Record[Batch]) any { return show(r) }
