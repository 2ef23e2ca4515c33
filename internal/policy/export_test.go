package policy

// Spent returns the work of expressions on a request so far, in CEL's units.
func (f *Facts) Spent() uint64 { return f.spent }
