// Package charges is the table of what a request is charged, by how it ends. The rule behind it: whatever was sent to
// a vendor is charged, at least with its prompt, and with as much of its answer as has come, whatever the end is
// called. Tests walk the table, and docs/limits.md has it.
//
// A new way to end needs a row in Rows and a walk in the tests of extproc/exchange or in test/hostile. A new operation
// needs a walk in the tests of extproc/exchange.
package charges

import (
	"fmt"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
)

// A Kind is a kind of operations that end in the same ways.
type Kind string

// Kinds of operations.
const (
	Text    Kind = "text"    // answers are text, whole or streamed
	Data    Kind = "data"    // answers are one document, such as vectors
	Media   Kind = "media"   // images and sound, in the request or in the answer
	Count   Kind = "count"   // the vendor bills nothing
	Session Kind = "session" // of the Realtime API
	Route   Kind = "route"   // requests that pass unread, of a key with a limit of tokens or a budget
	Job     Kind = "job"     // requests for the job service, which sends others
)

// Operations returns the kind of each operation, by its name in the ledger.
func Operations() map[string]Kind {
	all := map[string]Kind{
		"realtime": Session, "route": Route,
		"files": Job, "uploads": Job, "batches": Job, "fine_tuning": Job, "stored_responses": Job, "conversations": Job,
	}
	for _, d := range append(dialects.Others(), dialects.Default) {
		for _, op := range d.Operations {
			all[op.Name] = kindOf(op)
		}
	}
	return all
}

func kindOf(op *inbound.Operation) Kind {
	switch {
	case op.Free:
		return Count
	case op.AcceptsForms:
		return Media
	case op.TextAnswer:
		return Text
	}
	return Data
}

// A Fee is how a part of a request is charged.
type Fee string

// Fees.
const (
	Nothing  Fee = "nothing"
	Reported Fee = "as reported"
	Counted  Fee = "counted"
)

// What counting may be wrong by, for text: the charge is at least Least of the vendor's count, and at most Most of it
// and a few tokens of framing, or MostPassed for the answer of a Route, which is counted by its length. Tokens of
// media, and of thoughts that a vendor does not show, are not bounded.
const (
	Least      = 0.95
	Most       = 1.6
	MostPassed = 4
	Frame      = 60
)

// A Row is a way to end.
type Row struct {
	Way            string
	Kinds          []Kind
	Prompt, Answer Fee
	Remark         string
}

// all are the kinds of operations with one request to a vendor.
var all = []Kind{Text, Data, Media}

// Ways to end.
const (
	Finished       = "it finishes, and reports usage"
	Silent         = "it finishes, and reports no usage"
	LeftBefore     = "the client leaves before the answer begins"
	LeftWithin     = "the client leaves after content, before the usage"
	LeftAfter      = "the client leaves after the usage"
	CutWithin      = "the vendor's answer ends or breaks off after content"
	ErrorWithin    = "the vendor sends an error after content"
	ErrorFirst     = "status 200 and an error, before any content"
	FailedReported = "status 200 and a failure that reports usage"
	Unusable       = "status 200 and an answer that cannot be used"
	Refused        = "the vendor refuses it with 4xx or 5xx"
	TimedOut       = "the vendor has it, and gives no answer in time or breaks the connection"
	Unreached      = "no vendor can be reached"
	TriedUnheard   = "an earlier attempt got no answer in time, and a later one finishes"
	TriedRefused   = "an earlier attempt was refused, and a later one finishes"
	GatewayRefuses = "the gateway refuses it"
	Killed         = "the process that sent it is killed"
	FromCache      = "the answer is a cached one"

	Cancelled   = "a background response is cancelled, deleted or expires while it is made"
	WorkerDied  = "the job service dies while it makes a background response or runs a line"
	AskedTwice  = "the job service dies after an answer finished, and asks again"
	NativeEnds  = "a vendor's own batch ends, is cancelled or expires"
	SessionDone = "a session's response is reported"
	SessionCut  = "a session ends before its response is reported: by the client, the vendor, the key or a budget"
	SessionFail = "a session's response fails before any output"
	RouteUnread = "a Route's answer cannot be read"
)

// Rows are all ways to end.
var Rows = []Row{
	{Finished, slices.Concat(all, []Kind{Route}), Reported, Reported, ""},
	{Silent, []Kind{Text}, Counted, Counted, "a Route's stream too"},
	{Silent, []Kind{Data}, Counted, Nothing, ""},
	{Silent, []Kind{Media}, Counted, Counted, "images are charged as requested; a Route's document costs nothing"},
	{LeftBefore, slices.Concat(all, []Kind{Route}), Counted, Nothing, ""},
	{LeftWithin, []Kind{Text, Route}, Counted, Counted, ""},
	{LeftWithin, []Kind{Data}, Counted, Nothing, ""},
	{LeftWithin, []Kind{Media}, Counted, Counted, "images are charged as requested too"},
	{LeftAfter, []Kind{Text}, Reported, Reported, ""},
	{CutWithin, []Kind{Text, Route}, Counted, Counted, ""},
	{ErrorWithin, []Kind{Text, Route}, Counted, Counted, ""},
	{ErrorFirst, slices.Concat(all, []Kind{Route}), Nothing, Nothing, "a response that failed without output too"},
	{FailedReported, []Kind{Text}, Reported, Reported, ""},
	{Unusable, []Kind{Text}, Counted, Counted, "what could be read of the answer"},
	{Unusable, []Kind{Data}, Counted, Nothing, ""},
	{Unusable, []Kind{Media}, Counted, Counted, ""},
	{Refused, slices.Concat(all, []Kind{Route}), Nothing, Nothing, ""},
	{TimedOut, slices.Concat(all, []Kind{Route}), Counted, Nothing, ""},
	{Unreached, slices.Concat(all, []Kind{Route}), Nothing, Nothing, ""},
	{TriedUnheard, all, Counted, Reported, "the prompts of both, in one record"},
	{TriedRefused, all, Reported, Reported, ""},
	{GatewayRefuses, slices.Concat(all, []Kind{Route, Session, Job}), Nothing, Nothing, ""},
	{Killed, slices.Concat(all, []Kind{Route, Session}), Counted, Nothing, "a response of a session from its begin on"},
	{FromCache, []Kind{Text, Data}, Nothing, Nothing, "it is not in the ledger"},
	{Finished, []Kind{Count}, Nothing, Nothing, "and so is every other end"},
	{Finished, []Kind{Job}, Nothing, Nothing, "the requests that the job service sends are charged"},
	{Cancelled, []Kind{Job}, Counted, Counted, "the request to the vendor ends at once; under an id of its own"},
	{WorkerDied, []Kind{Job}, Counted, Counted, "under an id of its own; the next try is charged too"},
	{AskedTwice, []Kind{Job}, Reported, Reported, "once: the second answer is not charged, because the client did not cause it"},
	{NativeEnds, []Kind{Job}, Reported, Reported, "every line that the vendor answered; only keys without limits and budgets"},
	{SessionDone, []Kind{Session}, Reported, Reported, ""},
	{SessionCut, []Kind{Session}, Counted, Counted, "the prompt from what the vendor tells of the conversation, or from the bytes that the client sent"},
	{SessionFail, []Kind{Session}, Nothing, Nothing, ""},
	{RouteUnread, []Kind{Route}, Counted, Nothing, "compressed answers and binary streams"},
}

// Table returns the rows as a table of Markdown.
func Table() string {
	var b strings.Builder
	b.WriteString("| how it ends | of | prompt | answer | |\n|---|---|---|---|---|\n")
	for _, r := range Rows {
		kinds := make([]string, len(r.Kinds))
		for i, k := range r.Kinds {
			kinds[i] = string(k)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.Way, strings.Join(kinds, ", "), r.Prompt, r.Answer, r.Remark)
	}
	return b.String()
}
