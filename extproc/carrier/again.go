package carrier

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/again"
	"github.com/modelgate/modelgate/extproc/exchange"
)

// A substitute is the answer to an attempt of Reply.Again, in place of the one that Envoy holds. Until the client has
// its end, what Envoy shows of that one is ignored.
type substitute struct {
	cancel context.CancelFunc
	// empty means that the answer that Envoy holds has no body: then another can only be sent whole.
	empty    bool
	whole    exchange.Immediate
	trailers []string // of the answer that Envoy holds; nil: it has sent none
}

// begin makes the attempts of an exchange until the client has its answer. The caller holds the lock.
func (c *carrier) begin(p Phase, reply *exchange.Reply, end bool) {
	ctx, cancel := context.WithCancel(context.Background())
	c.instead = &substitute{cancel: cancel, empty: end && p == ResponseHeaders}
	if p == ResponseTrailers {
		c.instead.trailers = slices.Clone(reply.Remove)
	}
	first := reply.Again
	c.carriers.background.Go(func() {
		defer cancel()
		c.carriers.protect(c, func() {
			for next := first; next != nil; {
				next = c.attempt(ctx, next)
			}
		})
	})
}

// ignore takes a message about the answer that Envoy holds. Its trailers end the body, so they are answered last.
func (s *substitute) ignore(in *Message) {
	if in.Phase != ResponseTrailers {
		return
	}
	s.trailers = []string{}
	for i := range in.Headers {
		s.trailers = append(s.trailers, in.Headers[i].Name)
	}
}

// abort ends the client's answer after a panic.
func (c *carrier) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		_ = c.write(ResponseHeaders, &exchange.Reply{Immediate: &exchange.Immediate{
			Status: http.StatusInternalServerError, Header: http.Header{}, Details: envoy.ImmediateDetailPrefix + "panic"}})
	}
}

// attempt makes an attempt and sends its answer to the client, or returns the next attempt.
func (c *carrier) attempt(ctx context.Context, r *again.Request) (next *again.Request) {
	answer, err := c.carriers.Again.Do(ctx, r)
	if err != nil {
		next, _ = c.instruct(ResponseBody, func() exchange.Reply { return c.exchange.Broken(err) })
		return next
	}
	defer func() { _ = answer.Body.Close() }()
	next, more := c.instruct(ResponseHeaders, func() exchange.Reply {
		return c.exchange.ResponseHeaders(answer.Header, exchange.Facts{}, false)
	})
	for buffer := make([]byte, 16<<10); more; {
		n, err := answer.Body.Read(buffer)
		end := errors.Is(err, io.EOF)
		if n > 0 || end {
			piece := slices.Clone(buffer[:n]) // it may be kept
			next, more = c.instruct(ResponseBody, func() exchange.Reply {
				return c.exchange.ResponseBody(c.link, piece, end)
			})
		}
		if more && err != nil && !end {
			next, _ = c.instruct(ResponseBody, func() exchange.Reply { return c.exchange.Broken(err) })
		}
		more = more && err == nil
	}
	return next
}

// instruct has the exchange take something of an answer, and sends its reply. It returns the next attempt, if that is
// the reply, and whether more of the answer is wanted.
func (c *carrier) instruct(p Phase, take func() exchange.Reply) (next *again.Request, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	reply := take()
	switch {
	case reply.Again != nil:
		return reply.Again, false
	case c.substitute(p, &reply) != nil:
		return nil, false // reading the stream fails too
	}
	return nil, !reply.End && reply.Immediate == nil
}

// substitute sends a reply in place of one about the answer that Envoy holds.
func (c *carrier) substitute(p Phase, reply *exchange.Reply) error {
	s := c.instead
	switch {
	case reply.Immediate != nil:
		return c.write(ResponseHeaders, reply)
	case s.empty:
		return c.gather(reply)
	case reply.End && s.trailers != nil: // they are the end of the body
		last := exchange.Reply{Piece: true, End: false, Head: reply.Head, Body: reply.Body, Remove: s.trailers}
		return c.reply(ResponseTrailers, &last)
	}
	return c.reply(p, reply)
}

// gather collects an answer that can only be sent whole.
func (c *carrier) gather(reply *exchange.Reply) error {
	head, whole := reply, &c.instead.whole
	if reply.Head != nil {
		head = reply.Head
	}
	if whole.Header == nil {
		*whole = exchange.Immediate{Status: http.StatusOK, Header: http.Header{},
			Details: envoy.ImmediateDetailPrefix + "again"}
	}
	for _, h := range head.Set {
		if h.Name != ":status" && h.Name != "content-length" {
			whole.Header.Set(h.Name, h.Value)
		}
	}
	if reply.Piece {
		whole.Body = append(whole.Body, reply.Body...)
	}
	if !reply.End {
		return nil
	}
	return c.write(ResponseHeaders, &exchange.Reply{Immediate: whole})
}
