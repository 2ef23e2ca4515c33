package call

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/bodies"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/turns"
	"github.com/modelgate/modelgate/internal/usage"
)

// An Env has the dependencies of exchanges.
type Env struct {
	Now    func() time.Time
	Random func(n uint32) uint32 // in [0,n)
	NewID  func() string         // unique over all processes

	Limits   limit.Limiter  // nil: no limits
	Spool    usage.Spool    // of records for the ledger; may be nil
	Ledger   Ledger         // may be nil
	Observer Observer       // may be nil
	Tried    Tried          // may be nil
	Again    func() bool    // whether replies may have Again; nil: they may not
	Tracer   trace.Tracer   // nil: no spans
	Bodies   *bodies.Keeper // of requests and answers that are kept; may be nil

	Bytes    *inflight.Bytes // bounds the bodies that are held; nil: no bound
	Turns    *turns.Turns    // bounds the requests on which guardrails work for long; nil: no bound
	Shedding func() bool     // whether the process lacks memory for new requests; nil: never

	// Current returns the newest configuration, against which sessions check their keys. Nil: keys are not checked again.
	Current func() *Config
	// Parts receives the records of the parts of sessions. It may be nil.
	Parts func(metering.Record)

	Cooldown routing.Cooldown
	Suspects routing.Cooldown // providers that break answers off before their content
	// Strangers limits the answers to an address without a valid key. It may be nil.
	Strangers *access.Strangers

	// Names bounds the counters that clients name. It may be nil.
	Names *access.Names

	Sessions *turns.Places // of the Realtime API; nil: no bound

	Gates  routing.Gates
	Door   access.Door
	Drains atomic.Int64 // the requests that drain at the same time
	last   atomic.Pointer[Derived]
}

// Load returns the active and the waiting requests of a provider.
func (e *Env) Load(provider string) (active, waiting int, ok bool) { return e.Gates.Load(provider) }

// A Ledger answers queries. It is safe for concurrent use.
type Ledger interface {
	Usage(ctx context.Context, r *ledgerv1.UsageRequest, o ...grpc.CallOption) (*ledgerv1.UsageAnswer, error)
}

// A Tried knows how attempts ended that Envoy has tried again. It is safe for concurrent use.
type Tried interface {
	// Tell completes the attempts of an exchange, but for the last, as far as Envoy has reported them.
	Tell(tries []metering.Try)
}

// An Observer receives events that are counted but not part of a record. It is safe for concurrent use.
type Observer interface {
	// Degraded means that the store of limits was not available, and that this process decided from its own counters.
	Degraded()
	// Refused means that a limit of a domain or a budget ("cost"), defined for a kind of scope, refused a request.
	Refused(domain, scope string)
	// Shed means that a request was refused, or an answer lost, because of "memory", of the "bytes" of all held bodies,
	// or of the bytes of one key's bodies ("key_bytes").
	Shed(why string)
	// Chunks means that n chunks of a stream arrived together, gap after the previous ones.
	Chunks(r *metering.Record, n int, gap time.Duration)
}
