package local

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

// ReportsPath is the prefix of the paths of OpenAI's reports of usage and costs.
const ReportsPath = "/v1/organization/"

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

// Report answers with the usage of the key's project, of its organization if it has no project, or of the key if it
// has neither.
func (p Passage) Report(ctx context.Context, name, query string) call.Reply {
	resource := reports[name]
	if resource == "" {
		return p.c.Reject(call.UnknownURL(p.c.Record.Method, p.c.Record.Path), "mg_unknown_url")
	}
	asked := &ledgerv1.UsageRequest{Resource: resource, Query: query, Organization: p.c.Key.Organization,
		Project: p.c.Key.Project}
	if p.c.Key.Organization == "" {
		asked.Key = p.c.Key.Name
	}
	p.c.Record.ID = p.c.Env.NewID()
	set := p.c.RulesOfKey().For(p.c.Fits).Only(limit.Requests, limit.Concurrency)
	if e := p.account.ReserveKnown(ctx, set, limit.Amounts{limit.Requests: 1, limit.Concurrency: 1}); e != nil {
		return p.c.Reject(e, "mg_limited")
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	told, err := p.ask(ctx, asked)
	if err != nil {
		return p.c.Reject(openai.CodeLedgerUnavailable.New("The record of usage cannot be read at the moment. Please retry.").After(time.Second),
			"mg_no_ledger")
	}
	p.c.Record.Outcome, p.c.Record.Status = metering.OutcomeFinished, int(told.GetStatus())
	if p.c.Record.Status >= 400 {
		p.c.Record.Outcome = metering.OutcomeRejected
	}
	p.c.Finish()
	return p.c.Immediate(p.c.Record.Status, http.Header{"Content-Type": {answer.TypeJSON}}, told.GetBody(), "mg_report")
}

func (p Passage) ask(ctx context.Context, r *ledgerv1.UsageRequest) (*ledgerv1.UsageAnswer, error) {
	if p.c.Env.Ledger == nil {
		return nil, context.DeadlineExceeded
	}
	return p.c.Env.Ledger.Usage(ctx, r)
}
