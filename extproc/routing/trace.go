package routing

import (
	"slices"

	"github.com/modelgate/modelgate/extproc/message"
)

// traceBy stores the trace's headers for the targets that get them.
func (p *Plan) traceBy(trace Trace) {
	if slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Provider.Config.GetTraceContext() }) {
		p.trace = trace.TraceContext()
	}
}

// SetTrace adds the trace's headers to the request of an attempt, or removes those of an earlier attempt if this
// provider does not get them.
func (p *Plan) SetTrace(t Target, a *Attempt) {
	switch {
	case len(p.trace) == 0:
	case t.Provider.Config.GetTraceContext():
		a.Header = append(a.Header, p.trace...)
	default:
		a.Remove = []string{message.HeaderTraceParent, message.HeaderTraceState}
	}
}
