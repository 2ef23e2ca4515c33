package serve

import (
	"strings"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

// traceFlags lead from a request to its trace.
type traceFlags struct {
	TraceURL string `name:"trace-url" placeholder:"URL" help:"URL of a trace in your tracing tool, with {trace_id} in place of the id. The dashboard links to it."`
}

func (f traceFlags) check() error {
	if f.TraceURL != "" && (!strings.HasPrefix(f.TraceURL, "http") || !strings.Contains(f.TraceURL, "{trace_id}")) {
		return admincli.Misused("--trace-url: it must be an http or https URL with {trace_id} in it")
	}
	return nil
}
