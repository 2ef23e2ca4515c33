// Package usage has the usage of exchanges and its cost: prices, the spool that keeps records on disk for the
// ledger, and the client that ships them to the control plane.
//
// Money is an integer. Prices are decimals in US dollars per million tokens, which is a whole number of pico-dollars
// per token. Sums are exact, and are rounded once, half up, to the nano-dollar.
package usage

import (
	"context"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// ResponseCache stands for the provider in records of requests that a response cache has answered. No provider has
// such a name.
const ResponseCache = "response cache"

// A Used is the usage of one exchange.
type Used struct {
	openai.Usage
	Images int64
	Batch  bool // at the price of the vendor's batch API
}

// A Spool stores records until they are shipped. It is safe for concurrent use, and does not keep references to
// records.
//
// Begin is called when an exchange is sent to a provider, and End when it has ended, both before the client can see
// the end. If the spool is opened again and a record has no End, its process was killed: it is shipped with the
// outcome "interrupted".
type Spool interface {
	// Begin records an exchange that is sent, with the charge in case that it never ends.
	Begin(r *ledgerv1.Record)
	// End records the end of an exchange. The record replaces that of Begin.
	End(r *ledgerv1.Record)
	// Run ships ended records until ctx ends, and then for a short time the rest. It must be called once.
	Run(ctx context.Context, ledger ledgerv1.LedgerClient)
	// Close closes the spool after Run has returned. Later records are lost.
	Close() error
}

var _ Spool = (*DiskSpool)(nil)
