// Package carrier carries messages between Envoy and the exchanges of a process. It knows no transport: a [Link] may
// be a stream of an ext_proc filter, a filter inside Envoy, or a test.
package carrier

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/again"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
)

// A Link leads to the filter of Envoy that a request has passed. It is also the context of the request at that filter:
// it ends when the client leaves.
type Link interface {
	context.Context
	// Send sends a message. Any goroutine may call it.
	Send(*Response) error
	// Go calls a function that may wait. The handler of a message calls it last.
	Go(func() error) error
	// Silent returns a context that ends with the link, or with Envoy's next message. It is called inside Go.
	Silent() (context.Context, context.CancelFunc)
}

// A Handler handles Envoy's messages on one link, one at a time.
type Handler interface {
	// Take handles a message, which is valid until Take returns. Its body may be kept. An error ends the link: Envoy
	// must not let the request pass.
	Take(*Message) error
	// Close is called once, at the end. Its error ends the link, unless another has ended it.
	Close() error
}

// Traits are the properties of a filter of Envoy.
type Traits struct {
	Role string
	// Certificates is the gateway whose clients may present them; empty: they may not.
	Certificates string
	Drains       bool // the listener can hold a request back while its body drains
	Typed        bool // see [Response]
}

// Carriers opens the handlers of links. It is safe for concurrent use. The exported fields are set before.
type Carriers struct {
	Env    *exchange.Env
	Config func() *exchange.Config
	Closed func(metering.Record)
	// Again sends attempts that Envoy does not make; it may be nil.
	Again *again.Client
	// LimitsWait means that the limits use the network.
	LimitsWait bool
	// Panicked is called with a panic outside Take and Close.
	Panicked func(reason any, stack []byte)

	open       atomic.Int64
	plans      sync.Map       // id -> *routing.Plan, of exchanges that may be retried
	background sync.WaitGroup // of attempts that Envoy does not make
}

// Open returns the handler of a link. The traits tell which filter it leads to.
func (s *Carriers) Open(l Link, t Traits) (Handler, error) {
	var exchanges func(*exchange.Env, *exchange.Config) *exchange.Exchange
	switch t.Role {
	case envoy.RoleDownstream:
		exchanges = exchange.New
	case envoy.RoleInternal:
		exchanges = exchange.NewInternal
	case envoy.RoleUpstream:
		s.open.Add(1)
		return &attempt{carriers: s, link: l}, nil
	default:
		return nil, fmt.Errorf("unknown role %q", t.Role)
	}
	s.open.Add(1)
	c := &carrier{carriers: s, link: l, drains: t.Drains, typed: t.Typed, exchange: exchanges(s.Env, s.Config())}
	if t.Certificates != "" && t.Role == envoy.RoleDownstream {
		c.exchange.SetGateway(t.Certificates)
	}
	return c, nil
}

// Len returns the number of open handlers.
func (s *Carriers) Len() int64 { return s.open.Load() }

// Wait waits for the attempts that Envoy does not make.
func (s *Carriers) Wait() { s.background.Wait() }

// protect calls f outside a handler. A panic ends only the answer of the client.
func (s *Carriers) protect(c *carrier, f func()) {
	defer func() {
		if r := recover(); r != nil {
			s.Panicked(r, debug.Stack())
			c.abort()
		}
	}()
	f()
}
