package exchange

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
)

// reportsPath is the prefix of the paths of OpenAI's reports of usage and costs.
const reportsPath = "/v1/organization/"

// reportTimeout bounds the time of the ledger for a report.
const reportTimeout = 3 * time.Second

// A Ledger answers queries. It is safe for concurrent use.
type Ledger interface {
	Usage(ctx context.Context, r *ledgerv1.UsageRequest, o ...grpc.CallOption) (*ledgerv1.UsageAnswer, error)
}

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
		return x.reject(unknownURL(x.record.Method, x.record.Path), "mg_unknown_url")
	}
	asked := &ledgerv1.UsageRequest{Resource: resource, Query: query, Organization: x.key.Organization,
		Project: x.key.Project}
	if x.key.Organization == "" {
		asked.Key = x.key.Name
	}
	x.record.ID = x.env.NewID()
	set := x.rulesFor(x.rulesOfKey()).Only(limit.Requests, limit.Concurrency)
	if e := x.reserveKnown(ctx, set, limit.Amounts{limit.Requests: 1, limit.Concurrency: 1}); e != nil {
		return x.reject(e, "mg_limited")
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	answer, err := x.ask(ctx, asked)
	if err != nil {
		return x.reject(openai.CodeLedgerUnavailable.New("The record of usage cannot be read at the moment. Please retry.").After(time.Second),
			"mg_no_ledger")
	}
	x.record.Outcome, x.record.Status = metering.OutcomeFinished, int(answer.GetStatus())
	if x.record.Status >= 400 {
		x.record.Outcome = metering.OutcomeRejected
	}
	x.finish()
	return x.immediate(x.record.Status, http.Header{"Content-Type": {contentTypeJSON}}, answer.GetBody(), "mg_report")
}

func (x *Exchange) ask(ctx context.Context, r *ledgerv1.UsageRequest) (*ledgerv1.UsageAnswer, error) {
	if x.env.Ledger == nil {
		return nil, context.DeadlineExceeded
	}
	return x.env.Ledger.Usage(ctx, r)
}
