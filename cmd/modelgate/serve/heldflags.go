package serve

// heldFlags say how much clients hold of a process at the same time.
type heldFlags struct {
	BodyBytes int64 `default:"0" placeholder:"N" help:"Maximum bytes of request and response bodies in memory, both original and translated. One key can use half of it. Default: an eighth of the memory, at least 96 MiB and at most 512 MiB."`
	Sessions  int   `default:"3000" placeholder:"N" help:"Maximum number of open sessions of the Realtime API. One key can have a third of them. 0: no maximum."`
}
