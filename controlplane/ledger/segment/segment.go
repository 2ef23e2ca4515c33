// Package segment keeps records of the ledger as segments: Parquet files that every analytics engine reads. It encodes
// rows, searches many segments, newest first, and reads chosen columns of them for sums. What it needs to decide which
// segments a search has to read is in their summaries, which fit in memory.
//
// A segment is immutable, and its schema is public. A field keeps its id, its name and its meaning for ever. A new
// field gets a new id, and the id of a field that is not written any more stays unused. [Version] grows where that
// cannot be kept.
//
// A row costs 4 µs of CPU in segments of 1,000 and of 65,536 rows, and 8 to 12 in those of 100. In a large one it
// takes 99 bytes. Over ten million rows, with 74 MB of heap for the summaries, most searches take 2 to 4 ms of CPU,
// one in a million by cost 24, and a page of one user of 5,000 takes 52, on all processors at once. Values of two
// columns that are in every row group, but together in few rows, are the worst case: both columns are read, in 270 ms
// of CPU.
//
// Every chunk of a column has a checksum, and so has the footer. Do not read a segment with the library alone: it
// checks less.
package segment

import "github.com/modelgate/modelgate/internal/usage"

const (
	// Version is the version of the schema. It is in the metadata of every segment.
	Version = 1
	// GroupRows is how many rows a row group has at most.
	GroupRows = 8192
)

// A Row is one exchange. Texts are valid UTF-8.
type Row struct {
	ID, RequestID              string
	StartedAt                  int64 // microseconds
	DurationMS, FirstByteMS    int64
	Key, Organization, Project string
	User, Operation, Model     string
	Provider, UpstreamModel    string
	Attempts, Status, Requests int64
	Outcome, ErrorCode         string
	RefusedBy, KeyHint         string
	Used                       [usage.All]int64
	Cost, Fees                 int64 // nano-dollars; the fees are a part of the cost
	PriceVersion               string
	Stream, Estimated          bool
	Batch, Priced              bool
	TraceID, UpstreamID        string
	Dropped, Adjusted          string
	Cache, Policy, Message     string
	Plan, Guards               []string
	Limits                     []Limit
	AttemptList                []Attempt
}

// A Limit is a limit or a budget under which a request was reserved. Amounts of a budget are nano-dollars.
type Limit struct {
	Rule              string
	Reserved, Settled int64
}

// An Attempt is one try at a provider. Times are milliseconds.
type Attempt struct {
	Kind, Provider, UpstreamModel, Error             string
	Status, StartMS, FirstByteMS, DurationMS, CoolMS int64
}

// compare orders rows by time, and those of one time by their ids.
func compare(aAt int64, aID string, bAt int64, bID string) int {
	switch {
	case aAt < bAt, aAt == bAt && aID < bID:
		return -1
	case aAt == bAt && aID == bID:
		return 0
	}
	return 1
}
