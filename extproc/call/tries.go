package call

import "github.com/modelgate/modelgate/extproc/routing"

// NoteTries notes the attempts so far, if there are several.
func (c *Call) NoteTries() {
	tries := c.Active.Tries(c.Record.SentAt, c.Record.Attempts)
	if len(tries) > len(c.Record.Tries) {
		c.Record.Tries = append(c.Record.Tries, tries[len(c.Record.Tries):]...)
	}
	if c.Env.Tried != nil && len(tries) > 1 {
		c.Env.Tried.Tell(c.Record.Tries)
	}
}

// Retry prepares the call for the answer of another provider. The client has got nothing.
func (c *Call) Retry(next *routing.Provider) {
	if c.Guarded != nil {
		c.Guarded.answer = nil
	}
	c.Whole, c.Unseen, c.Media = false, false, ""
	c.HeadWaits, c.Held, c.NoRoom = false, nil, false
	c.Provider = next
}
