package webhooks

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/internal/webhook"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/queue"
)

// configPause is the interval at which the configuration of webhooks is checked at the start.
const configPause = 100 * time.Millisecond

// Run delivers events until ctx ends, and returns when no delivery is running.
func (s *Service) Run(ctx context.Context) {
	if timing.Until(ctx, configPause, func() bool { return s.Config() != nil }) == nil {
		s.Queue.WorkReady(ctx, kind, s.Limits.Concurrent, s.ready, s.handle)
	}
}

// ready reports whether an attempt at a delivery may begin. One that is too old may, so that it is dropped.
func (s *Service) ready(i queue.Item) bool {
	_, name, _ := strings.Cut(i.ID, ".")
	return !s.unresponsive.full(name) || s.tooOld(gjson.GetBytes(i.Value, "event.at").Int())
}

// tooOld reports whether an event of that time, in Unix seconds, is no longer delivered to a webhook that does not
// answer.
func (s *Service) tooOld(at int64) bool { return s.Now().Sub(time.Unix(at, 0)) > maxAge }

// handle makes one attempt at a delivery, and records the result.
func (s *Service) handle(ctx context.Context, c *queue.Claim) error {
	var d delivery
	if err := json.Unmarshal(c.Value, &d); err != nil {
		s.Log.Error("a delivery cannot be read and is dropped", zap.String("item", c.ID), zap.Error(err))
		return s.settle(ctx, c, nil)
	}
	known := s.Config()
	if d.Webhook == "" {
		return s.settle(ctx, c, s.each(known, d.Event))
	}
	hook := named(known, d.Webhook)
	if hook == nil || !d.Event.matches(hook) { // it was deleted, disabled or changed
		s.deliveries.WithLabelValues(dropped).Inc()
		return s.settle(ctx, c, nil)
	}
	if !s.unresponsive.enter(d.Webhook) {
		return s.putOff(ctx, c, d)
	}
	r := s.attempt(ctx, hook, d.Event)
	s.unresponsive.leave(d.Webhook, r.Outcome)
	if ctx.Err() != nil { // another worker will repeat the attempt
		return ctx.Err()
	}
	return s.record(ctx, c, d, r)
}

func named(c *config.Config, name string) *configv1.Webhook {
	for _, w := range c.Webhooks {
		if w.GetName() == name {
			return w
		}
	}
	return nil
}

// record records the result of an attempt: the delivery is done, or will be tried again.
func (s *Service) record(ctx context.Context, c *queue.Claim, d delivery, r webhook.Result) error {
	s.deliveries.WithLabelValues(r.Outcome).Inc()
	d.Attempts++
	log := s.Log.With(zap.String("webhook", d.Webhook), zap.String("event", d.Event.Type),
		zap.String("outcome", r.Outcome),
		zap.Int("status", r.Status), zap.Int("attempt", d.Attempts))
	pause, again := retryAfter(r, d.Attempts)
	switch {
	case r.Outcome == webhook.Delivered:
		log.Debug("an event was delivered")
		return s.settle(ctx, c, nil)
	case !again:
		log.Warn("an event was not delivered and is given up")
		return s.settle(ctx, c, nil)
	}
	log.Info("an event was not delivered; it will be tried again", zap.Duration("in", pause))
	return s.later(ctx, c, d, pause)
}

// putOff delays a delivery that was claimed together with others for the last free attempt, or drops it if it is too
// old.
func (s *Service) putOff(ctx context.Context, c *queue.Claim, d delivery) error {
	if s.tooOld(d.Event.At) {
		s.deliveries.WithLabelValues(webhook.Unreachable).Inc()
		s.Log.Warn("an event was not delivered and is given up", zap.String("webhook", d.Webhook),
			zap.String("event", d.Event.Type),
			zap.String("outcome", webhook.Unreachable), zap.Int("attempt", d.Attempts))
		return s.settle(ctx, c, nil)
	}
	return s.later(ctx, c, d, delay/2+rand.N(delay))
}

// later delays a claimed delivery.
func (s *Service) later(ctx context.Context, c *queue.Claim, d delivery, pause time.Duration) error {
	t := s.Store.Begin()
	t.Require(c.Held())
	d.NotBefore = s.Now().Add(pause).Unix()
	s.put(t, d)
	return t.Commit(ctx)
}

// settle removes a claimed delivery from the queue, and adds others.
func (s *Service) settle(ctx context.Context, c *queue.Claim, next []delivery) error {
	t := s.Store.Begin()
	t.Require(c.Held())
	t.Do(queue.Remove(kind, c.ID))
	for _, d := range next {
		s.put(t, d)
	}
	return t.Commit(ctx)
}

// dropped is the outcome of a delivery whose webhook was deleted. Package webhook has the others.
const dropped = "dropped"

// attempt posts an event to a webhook.
func (s *Service) attempt(ctx context.Context, hook *configv1.Webhook, e event) webhook.Result {
	body, err := e.body()
	if err != nil {
		return webhook.Result{Outcome: webhook.Unsigned}
	}
	return s.client.Post(ctx, hook.GetUrl(), webhook.Message{ID: e.ID, Body: body, Secret: hook.GetSecret().GetValue(),
		Signed: true}, s.Now())
}
