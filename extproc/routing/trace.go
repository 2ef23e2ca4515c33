package routing

import (
	"slices"

	"github.com/modelgate/modelgate/extproc/message"
)

// traceBy keeps the trace's headers for those of the targets that are to get them.
func (p *Plan) traceBy(trace Trace) {
	if slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Provider.Config.GetTraceContext() }) {
		p.trace = trace.TraceContext()
	}
}

// CarryTrace adds the trace's headers to the request of an attempt, or has those of an attempt before it, which
// another provider was to get, taken away.
func (p *Plan) CarryTrace(t Target, a *Attempt) {
	switch {
	case len(p.trace) == 0:
	case t.Provider.Config.GetTraceContext():
		a.Header = append(a.Header, p.trace...)
	default:
		a.Remove = []string{message.HeaderTraceParent, message.HeaderTraceState}
	}
}
