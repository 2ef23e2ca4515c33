package exchange

import (
	"context"
	"net/http"
	"time"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
)

// reportsPath is the prefix of the paths of OpenAI's reports of usage and costs.
const reportsPath = "/v1/organization/"

// reportTimeout bounds the time of the ledger for a report.
const reportTimeout = 3 * time.Second

// reports maps the path of each report to the ledger's name for it.
var reports = map[string]string{
	"costs":                      "costs",
	"usage/completions":          "completions",
	"usage/embeddings":           "embeddings",
	"usage/moderations":          "moderations",
	"usage/images":               "images",
	"usage/audio_speeches":       "audio_speeches",
	"usage/audio_transcriptions": "audio_transcriptions",
}

// report answers with the usage of the key's project, of its organization if it has no project, or of the key if it
// has neither.
func (x *Exchange) report(ctx context.Context, name, query string) Reply {
	resource := reports[name]
	if resource == "" {
		return x.c.Reject(call.UnknownURL(x.c.Record.Method, x.c.Record.Path), "mg_unknown_url")
	}
	asked := &ledgerv1.UsageRequest{Resource: resource, Query: query, Organization: x.c.Key.Organization,
		Project: x.c.Key.Project}
	if x.c.Key.Organization == "" {
		asked.Key = x.c.Key.Name
	}
	x.c.Record.ID = x.c.Env.NewID()
	set := x.c.RulesOfKey().For(x.c.Fits).Only(limit.Requests, limit.Concurrency)
	if e := x.account.ReserveKnown(ctx, set, limit.Amounts{limit.Requests: 1, limit.Concurrency: 1}); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	told, err := x.ask(ctx, asked)
	if err != nil {
		return x.c.Reject(openai.CodeLedgerUnavailable.New("The record of usage cannot be read at the moment. Please retry.").After(time.Second),
			"mg_no_ledger")
	}
	x.c.Record.Outcome, x.c.Record.Status = metering.OutcomeFinished, int(told.GetStatus())
	if x.c.Record.Status >= 400 {
		x.c.Record.Outcome = metering.OutcomeRejected
	}
	x.c.Finish()
	return x.c.Immediate(x.c.Record.Status, http.Header{"Content-Type": {answer.TypeJSON}}, told.GetBody(), "mg_report")
}

func (x *Exchange) ask(ctx context.Context, r *ledgerv1.UsageRequest) (*ledgerv1.UsageAnswer, error) {
	if x.c.Env.Ledger == nil {
		return nil, context.DeadlineExceeded
	}
	return x.c.Env.Ledger.Usage(ctx, r)
}
