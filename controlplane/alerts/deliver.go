package alerts

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/webhook"
)

const (
	// maxAge is how long after an event its delivery is given up.
	maxAge = 24 * time.Hour
	// maxAfter bounds a receiver's retry-after.
	maxAfter = time.Hour
)

// pauses returns the pauses between attempts; the last one repeats.
func pauses() []time.Duration {
	return []time.Duration{5 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
		30 * time.Minute, time.Hour}
}

// deliver delivers what waits until ctx ends. Each receiver has one delivery at a time, the oldest: one that hangs
// holds up no other, and each hears of things in their order.
func (s *Service) deliver(ctx context.Context, lead clientv3.Cmp) {
	var running sync.WaitGroup
	defer running.Wait()
	busy, done := map[string]bool{}, make(chan string)
	ticker := time.NewTicker(deliverEvery)
	defer ticker.Stop()
	for {
		all, err := s.store.waiting(ctx)
		if err != nil && ctx.Err() == nil {
			s.options.Log.Warn("alerts cannot be delivered", zap.Error(err))
		}
		for receiver, items := range all {
			if busy[receiver] || items[0].Delivery.At.After(s.options.Now()) {
				continue
			}
			busy[receiver] = true
			running.Go(func() {
				s.attempt(ctx, lead, items[0])
				select {
				case done <- receiver:
				case <-ctx.Done():
				}
			})
		}
		select {
		case <-ctx.Done():
			return
		case receiver := <-done:
			delete(busy, receiver)
		case <-s.kicked:
		case <-ticker.C:
		}
	}
}

// attempt tries to deliver an item once, and records what came of it.
func (s *Service) attempt(ctx context.Context, lead clientv3.Cmp, i item) {
	i.Delivery.Error, i.Delivery.Attempts = "", i.Delivery.Attempts+1
	r := s.receiver(i.Delivery.Receiver)
	var got result
	if r == nil {
		got = result{outcome: webhook.Gone, says: "the receiver was removed or disabled"}
	} else if got = s.sender.send(ctx, r, i.Event); ctx.Err() != nil {
		return // who leads next tries again
	}
	now := s.options.Now().UTC()
	i.Delivery.At = now
	log := s.options.Log.With(zap.String("receiver", i.Delivery.Receiver), zap.String("event", i.Event.ID),
		zap.Int("attempt", i.Delivery.Attempts))
	switch {
	case got.outcome == webhook.Delivered:
		i.Delivery.State = adminapi.DeliveryDelivered
		log.Debug("an alert was delivered")
	case got.outcome == webhook.Gone, now.Sub(i.Event.At) >= maxAge:
		i.Delivery.State, i.Delivery.Error = adminapi.DeliveryGivenUp, got.says
		log.Warn("an alert was not delivered and is given up", zap.String("error", got.says))
	default:
		pause := webhook.Pause(pauses(), i.Delivery.Attempts, got.after, maxAfter)
		i.Delivery.Error, i.Delivery.At = got.says, now.Add(pause)
		log.Info("an alert was not delivered; it will be tried again", zap.String("error", got.says),
			zap.Time("next", i.Delivery.At))
	}
	if err := s.store.settle(ctx, lead, i); err != nil && ctx.Err() == nil {
		log.Warn("what came of a delivery cannot be stored", zap.Error(err))
	}
}

// receiver returns a configured receiver, or nil.
func (s *Service) receiver(name string) *configv1.AlertReceiver {
	state, _ := s.options.Plane.State()
	for _, r := range configstore.All[*configv1.AlertReceiver](state) {
		if r.GetName() == name && !r.GetDisabled() {
			return r
		}
	}
	return nil
}

// kindOf names the kind of a receiver.
func kindOf(r *configv1.AlertReceiver) string {
	switch {
	case r.GetSlack() != nil:
		return "slack"
	case r.GetEmail() != nil:
		return "email"
	}
	return "webhook"
}
