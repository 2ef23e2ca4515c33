// Package usage is about what exchanges used and what that costs: the price of a usage, the spool in which records of
// the ledger wait on disk, and the client that ships them to the control plane.
//
// Money is an integer. Prices are decimals in US dollars for a million tokens, which is a whole
// number of pico-dollars a token; sums are exact, and are rounded once, to the nano-dollar, half up.
package usage

import (
	"context"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// A Used is what one exchange used.
type Used struct {
	openai.Usage
	Images int64
	Batch  bool // at the price of the vendor's batch API
}

// A Spool keeps records until they are shipped. It is safe for concurrent use, and does not keep the records it is
// given.
//
// Begin is called when an exchange goes out to a provider, End when it has ended, both before the client can see the
// end. A record of which only the beginning is there when the spool is opened again belongs to a process that was
// killed: it is shipped with the outcome "interrupted".
type Spool interface {
	// Begin notes an exchange that goes out, with what it will be charged if nothing more is heard of it.
	Begin(r *ledgerv1.Record)
	// End notes how it ended. The record takes the place of what Begin noted.
	End(r *ledgerv1.Record)
	// Run ships what has ended until ctx ends, and then tries for a short time to ship the rest. It must be called once.
	Run(ctx context.Context, ledger ledgerv1.LedgerClient)
	// Close ends the spool when Run has returned. What is noted afterwards is not kept.
	Close() error
}

var _ Spool = (*DiskSpool)(nil)
