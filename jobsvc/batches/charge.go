package batches

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/usage"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A Charge is the use of a batch that the provider ran by itself. No exchange of the gateway has charged it.
type Charge struct {
	Lines        int          `json:"lines"` // that the provider answered
	Usage        openai.Usage `json:"usage"`
	Cost         usage.Nano   `json:"cost"`
	Priced       bool         `json:"priced,omitempty"`
	PriceVersion string       `json:"price_version,omitempty"` // of the newest price
}

func (c Charge) plus(more Charge) Charge {
	if more.Lines == 0 {
		return c
	}
	more.Lines += c.Lines
	more.Usage = plus(c.Usage, more.Usage)
	more.Cost += c.Cost
	more.Priced = more.Priced || c.Priced
	return more
}

// A pricing says what answers of a provider's own batch cost. Nil is for answers that are charged as they are asked
// for.
type pricing struct {
	rates   *usage.Rates
	version string
	of      func(model string) *usage.Rates // of another model of the vendor; nil: it is not known
}

// pricing returns the prices of the models of a provider's own batch, when it was submitted.
func (w *work) pricing(p *config.Provider, b *provider.Batch) *pricing {
	c, at := w.s.Config(), time.Unix(b.Since, 0)
	price := catalog.PriceAt(b.Target.Facts, at)
	return &pricing{usage.Compile(price), usage.Version(price), func(model string) *usage.Rates {
		return usage.Compile(catalog.PriceAt(c.At(p, model).Facts, at))
	}}
}

// charge returns what an answer costs. Each is priced by itself: a price may depend on how long a prompt is.
func (p *pricing) charge(a *answer) Charge {
	if p == nil {
		return Charge{}
	}
	c := Charge{Lines: 1, Usage: a.usage, PriceVersion: p.version}
	c.Cost, c.Priced = p.rates.CostByModel(usage.Used{Usage: a.usage, Batch: true}, p.of)
	return c
}

// kindCharge are the records in the queue that the ledger does not have yet.
const kindCharge = "charge"

// announceCharge queues the provider's use for the ledger once a transaction is committed, whatever becomes of
// this replica.
func (w *work) announceCharge(t *store.Txn, b *Batch, now time.Time) error {
	if b.Charge.Lines == 0 {
		return nil
	}
	value, err := protojson.Marshal(w.entry(b, now))
	if err != nil {
		return fmt.Errorf("charge the batch: %w", err)
	}
	t.Do(queue.Put(queue.Item{Kind: kindCharge, ID: w.rec.ID, Value: value}))
	return nil
}

// entry returns the record of the provider's use. Its id is the batch's, so that it is charged once however often
// it is sent.
func (w *work) entry(b *Batch, now time.Time) *ledgerv1.Record {
	n, c := b.Native, b.Charge
	r := &ledgerv1.Record{
		Id: w.rec.ID,
		// It counts for the day in which it becomes known, because an earlier day may be billed already.
		Start: timestamppb.New(now), End: timestamppb.New(now),
		Key: b.Key, Organization: w.rec.Tenant.Organization, Project: w.rec.Tenant.Project,
		Operation: strings.TrimPrefix(b.Endpoint, "/v1/"), Model: b.Model, Provider: n.Provider, UpstreamModel: n.Model,
		Attempts: 1, Status: 200, Outcome: "finished", Requests: int64(c.Lines), Batch: true,
		CostNanoUsd: int64(c.Cost), Priced: c.Priced, PriceVersion: c.PriceVersion,
	}
	(&usage.Used{Usage: c.Usage}).Fill(r)
	return r
}

// ledgerTimeout bounds one call of the ledger.
const ledgerTimeout = 15 * time.Second

// ship sends a record to the ledger. While the ledger is unavailable, the queue tries again.
func (s *Service) ship(ctx context.Context, c *queue.Claim) error {
	r := &ledgerv1.Record{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(c.Value, r); err != nil {
		return fmt.Errorf("charge of %s: %w", c.ID, err)
	}
	limited, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	if _, err := s.Ledger.Record(limited, &ledgerv1.RecordRequest{Records: []*ledgerv1.Record{r}}); err != nil {
		return fmt.Errorf("charge %s: %w", c.ID, err)
	}
	s.Log.Debug("a batch that its provider ran is in the ledger", zap.String("batch", c.ID))
	return c.Dequeue(ctx, s.Store)
}
