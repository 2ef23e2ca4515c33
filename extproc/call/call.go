package call

import (
	"time"

	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/policy"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/respcache"
)

// A Call is one request and its answer. One goroutine uses it at a time.
type Call struct {
	Env      *Env
	Config   *Config
	Internal bool // the request comes from the job service
	Ended    bool
	Record   metering.Record

	Dialect      *inbound.Dialect // the client's
	Key          *access.Client
	Operation    *inbound.Operation // nil: it passes unread, or is no request to a provider
	Head         inbound.Head
	Plain        bool     // the path is the client's own, and has no query
	AtHost       []string // providers that have the host which the client has called
	Request      request.Request
	WantsStream  bool
	IncludeUsage bool
	Unserved     bool // nothing serves the path
	Full         bool // the provider of the first attempt takes no further request now
	// MayWait means that filters may wait: the client waits for the answer, and its leaving ends their context.
	MayWait      bool
	Echo         []byte // see chat.Asked
	LimitHeaders Headers
	Active       *routing.Plan     // nil: no provider is asked
	Provider     *routing.Provider // that answers

	// Of the request's headers, while filters decide on them.
	Headers      Headers
	Endpoint     string // by which a key's endpoints are judged
	Gateway      string // whose clients may present certificates; empty: it is another
	CacheControl string // the header, if there are caches

	Guarded   *Guarded // nil: no guardrail applies
	followers []Follower
	Kept      *respcache.Answer // to an equal or similar request; nil: a provider is asked
	Pace      int               // how many chunks of a kept stream are sent a second; 0: all at once
	Hold      inflight.Hold     // room for the bodies

	facts  *policy.Facts // for expressions; nil: none has asked
	offers offers        // what the request has the vendor do

	// The answer.
	Duplex    bool   // its pieces do not wait for replies, and its headers may wait for pieces
	HeadWaits bool   // its headers wait for a reply: the client has got nothing
	Whole     bool   // it is needed as a whole, which takes room
	Unseen    bool   // it passes without being shown
	NoRoom    bool   // there is no room for it
	Media     string // its content-type, if it may be kept in a cache
	Held      []byte // what is received of it and held

	Removed [16]string // room of most replies for headers of the request, and then of the answer

	names     Names
	driver    Driver
	lastChunk time.Time // of a stream
}

// A Driver is the exchange, as the call sees it.
type Driver interface {
	// Finish ends the exchange: it settles the charge and completes the record.
	Finish()
	// Again goes on with the next attempt of the plan after one has failed, if the client has got nothing of it.
	Again(err error) (Reply, bool)
}

// Begin prepares the call for an exchange.
func (c *Call) Begin(env *Env, config *Config, d Driver) {
	c.Env, c.Config, c.driver, c.Dialect = env, config, d, dialects.Default
	c.Record.Start = env.Now()
}

// Finish ends the exchange.
func (c *Call) Finish() { c.driver.Finish() }

// PassUnseen passes the rest of an answer without showing it.
func (c *Call) PassUnseen(reply *Reply) {
	c.Unseen, c.Record.Outcome, reply.Log = true, metering.OutcomeFinished, true
}

// Again goes on with the next attempt of the plan after one has failed, if it may.
func (c *Call) Again(err error) (Reply, bool) { return c.driver.Again(err) }

// Derived returns the values that are computed from the configuration.
func (c *Call) Derived() *Derived { return c.Env.Derived(c.Config) }

// Found notes findings in the record.
func (c *Call) Found(f guard.Finding, n int) {
	if c.Record.Guards == nil {
		c.Record.Guards = guard.Findings{}
	}
	c.Record.Guards[f] += n
}

// Shed counts a request that was refused, or an answer that was lost, because of a lack of something.
func (c *Call) Shed(why string) {
	if c.Env.Observer != nil {
		c.Env.Observer.Shed(why)
	}
}
