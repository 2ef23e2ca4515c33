package call

import "context"

// A Filter decides about a request with one capability. Each call has its own.
type Filter interface {
	// Request decides on the request. Nil means that the next filter decides. Queue means that the decision has to wait:
	// Request is called again when the call may wait.
	Request(ctx context.Context) *Reply
}

// A Follower is a filter that has to do with the answer, too.
type Follower interface {
	// Answer sees a piece of the answer's body that the client gets. The last piece may come after the call has ended.
	Answer(piece []byte)
	// End is called once, when the client gets nothing more.
	End()
}

// queue is the reply of a filter that has to wait.
var queue = Reply{Queue: true}

// Queue returns the reply of a filter that has to wait for something before it decides; nil if the call may wait.
func (c *Call) Queue() *Reply {
	if c.MayWait {
		return nil
	}
	return &queue
}

// left is the reply to a request whose client has left.
var left = Reply{Wait: true}

// Left returns the reply to a request whose client has left.
func Left() *Reply { return &left }

// Follow has a follower see the answer.
func (c *Call) Follow(f Follower) { c.followers = append(c.followers, f) }

// Sent notes a piece of the answer's body that the client gets.
func (c *Call) Sent(piece []byte) {
	c.Record.Sent += int64(len(piece))
	for _, f := range c.followers {
		f.Answer(piece)
	}
}

// Close ends the call after its record is complete.
func (c *Call) Close() {
	for _, f := range c.followers {
		f.End()
	}
	c.followers = nil
}
