package exchange

// try notes the attempts so far, if there are several.
func (x *Exchange) try() {
	tries := x.c.Active.Tries(x.c.Record.SentAt, x.c.Record.Attempts)
	if len(tries) > len(x.c.Record.Tries) {
		x.c.Record.Tries = append(x.c.Record.Tries, tries[len(x.c.Record.Tries):]...)
	}
	if x.c.Env.Tried != nil && len(tries) > 1 {
		x.c.Env.Tried.Tell(x.c.Record.Tries)
	}
}
