package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// kindOwed are provider's batches in the queue of which the answers were not waited for. The provider may have run
// lines that nobody is charged for yet.
const kindOwed = "owed"

const (
	// owedFor is how long the provider may take to say what it has run. Its own windows are a day.
	owedFor = 48 * time.Hour
	// owedAtOnce is how many are asked for at once.
	owedAtOnce = 2
)

// An owed is an item of that kind.
type owed struct {
	Tenant store.Tenant `json:"tenant"`
	Done   []uint64     `json:"done,omitempty"` // the lines that are charged already; see set
	Until  int64        `json:"until"`          // as Unix time in seconds
}

// owe ends the provider's part before it has said what it has run. What it says later is charged.
func (d delegate) owe(ctx context.Context, n Native) error {
	done, err := d.done(ctx)
	if errors.Is(err, errBroken) {
		return d.leave(ctx, n) // which lines are charged is not known
	}
	if err != nil {
		return err
	}
	value, err := json.Marshal(owed{d.rec.Tenant, done.words, d.s.Now().Add(owedFor).Unix()})
	if err != nil {
		return fmt.Errorf("owe %s: %w", d.rec.ID, err)
	}
	n.Over = true
	return d.change(ctx, func(b *Batch, t *store.Txn) error {
		b.Native = &n
		t.Use(b.InputFile, owedID(d.rec.ID)) // answers are read beside their requests
		t.Do(queue.Put(queue.Item{Kind: kindOwed, ID: d.rec.ID, Value: value}))
		return nil
	})
}

// owedID is the id of what is charged for a batch later. It is not the batch's, which is charged once.
func owedID(batch string) string { return batch + ".owed" }

// collectOwed charges what a provider has run of a batch that did not wait for it, once the provider says it.
func (s *Service) collectOwed(ctx context.Context, c *queue.Claim) error {
	var o owed
	if err := json.Unmarshal(c.Value, &o); err != nil {
		return fmt.Errorf("owed of %s: %w", c.ID, err)
	}
	rec, err := Kind.Get(ctx, s.Store, o.Tenant, c.ID)
	if errors.Is(err, store.ErrNotFound) {
		return c.Dequeue(ctx, s.Store)
	}
	if err != nil {
		return err
	}
	d := delegate{&work{s: s, claim: c, rec: rec, log: s.Log.With(zap.String("batch", c.ID))}}
	charge, err := d.late(ctx, &set{words: o.Done})
	late := !s.Now().Before(time.Unix(o.Until, 0))
	if err != nil && !gone(err) && !late {
		d.log.Debug("the provider does not say yet what it has run", zap.Error(err))
		return s.again(ctx, c)
	}
	if err != nil {
		d.log.Error("what the provider has run of a batch cannot be found out, and is not charged", zap.Error(err))
		charge = Charge{}
	}
	t := s.Store.Begin()
	t.Require(c.Held())
	t.Do(queue.Remove(c.Kind, c.ID))
	t.Free(rec.Value.InputFile, owedID(c.ID))
	if charge.Lines > 0 {
		b := rec.Value
		b.Charge = charge
		r := d.entry(&b, s.Now())
		r.Id = owedID(c.ID)
		value, err := protojson.Marshal(r)
		if err != nil {
			return fmt.Errorf("charge %s: %w", c.ID, err)
		}
		t.Do(queue.Put(queue.Item{Kind: kindCharge, ID: r.GetId(), Value: value}))
	}
	return t.Commit(ctx)
}

// again has an item taken up later.
func (s *Service) again(ctx context.Context, c *queue.Claim) error {
	i := c.Item
	i.NotBefore = s.Now().Add(30 * s.Limits.Poll).Unix()
	t := s.Store.Begin()
	t.Require(c.Held())
	t.Do(queue.Put(i))
	return t.Commit(ctx)
}

var errNotOver = errors.New("the provider's batch is not over")

// late returns the charge of the provider's answers to lines that are not done.
func (d delegate) late(ctx context.Context, done *set) (c Charge, err error) {
	n := *d.rec.Value.Native
	var p *config.Provider
	if c := d.s.Config(); c != nil {
		p = c.Providers[n.Provider]
	}
	if p == nil || p.Vendor.Batches == nil {
		return c, errors.New("the provider is not configured")
	}
	client := d.s.Gateway.Provider(p)
	report, err := p.Vendor.Batches.Poll(ctx, client, n.Remote)
	if err == nil && !report.Over {
		err = errNotOver
	}
	if err != nil || report.Error != nil {
		return c, err
	}
	input, err := newRandom(ctx, d.input())
	if err != nil {
		return c, err
	}
	defer input.close()
	b := d.remote(p, n, false)
	b.Request = input.body
	price := d.pricing(p, &b)
	err = p.Vendor.Batches.Results(ctx, client, n.Remote, b, func(a provider.BatchAnswer) error {
		if a.Status == 0 || !done.add(a.Line) {
			return ctx.Err()
		}
		r, err := input.request(ctx, a.Line)
		if err != nil {
			return err
		}
		got, _ := answerOf(&a, &b, r.body)
		c = c.plus(price.charge(&got))
		return nil
	})
	return c, err
}
