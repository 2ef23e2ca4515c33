package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"code.dny.dev/ssrf"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/queue"
)

// configPause is the interval at which the configuration of webhooks is checked at the start.
const configPause = 100 * time.Millisecond

// Run delivers events until ctx ends, and returns when no delivery is running.
func (s *Service) Run(ctx context.Context) {
	ticker := time.NewTicker(configPause)
	defer ticker.Stop()
	for s.Config() == nil {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	s.Queue.Work(ctx, kind, s.Limits.Concurrent, s.handle)
}

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
	s.unresponsive.leave(d.Webhook, r.outcome)
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
func (s *Service) record(ctx context.Context, c *queue.Claim, d delivery, r result) error {
	s.deliveries.WithLabelValues(r.outcome).Inc()
	d.Attempts, d.PutOff = d.Attempts+1, 0
	log := s.Log.With(zap.String("webhook", d.Webhook), zap.String("event", d.Event.Type),
		zap.String("outcome", r.outcome),
		zap.Int("status", r.status), zap.Int("attempt", d.Attempts))
	pause, again := retryAfter(r, d.Attempts)
	switch {
	case r.outcome == delivered:
		log.Debug("an event was delivered")
		return s.settle(ctx, c, nil)
	case !again:
		log.Warn("an event was not delivered and is given up")
		return s.settle(ctx, c, nil)
	}
	log.Info("an event was not delivered; it will be tried again", zap.Duration("in", pause))
	return s.later(ctx, c, d, pause)
}

// putOff delays a delivery to an unresponsive webhook, or drops it if it is too old.
func (s *Service) putOff(ctx context.Context, c *queue.Claim, d delivery) error {
	if s.Now().Sub(time.Unix(d.Event.At, 0)) > maxAge {
		s.deliveries.WithLabelValues(unreachable).Inc()
		s.Log.Warn("an event was not delivered and is given up", zap.String("webhook", d.Webhook),
			zap.String("event", d.Event.Type),
			zap.String("outcome", unreachable), zap.Int("attempt", d.Attempts))
		return s.settle(ctx, c, nil)
	}
	pause := putOff(d.PutOff)
	d.PutOff++
	return s.later(ctx, c, d, pause)
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

// Outcomes of deliveries, in metrics and logs.
const (
	delivered   = "delivered"
	refused     = "refused"     // a status other than 2xx
	gone        = "gone"        // 410: the receiver does not want such events any more
	blocked     = "blocked"     // the address is not allowed
	timeout     = "timeout"     // no answer in time
	unreachable = "unreachable" // no connection, or it broke
	unsigned    = "unsigned"    // the secret or the URL of the webhook is invalid
	dropped     = "dropped"     // the webhook was deleted
)

// A result is the result of an attempt.
type result struct {
	outcome string
	status  int           // of the answer; may be 0
	after   time.Duration // the receiver's retry-after
}

// maxBody bounds the bytes that are read of an answer, which are ignored.
const maxBody = 4 << 10

// attempt posts an event to a webhook.
func (s *Service) attempt(ctx context.Context, hook *configv1.Webhook, e event) result {
	body, err := e.body()
	if err != nil {
		return result{outcome: unsigned}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.GetUrl(), bytes.NewReader(body))
	if err != nil {
		return result{outcome: unsigned}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Modelgate-Webhooks")
	if err := sign(r.Header, hook.GetSecret().GetValue(), e.ID, s.Now(), body); err != nil {
		return result{outcome: unsigned}
	}
	answer, err := s.clients.of(r.URL.Scheme).Do(r)
	if err != nil {
		return result{outcome: reason(err)}
	}
	defer func() { _ = answer.Body.Close() }() // the body is ignored
	_, _ = io.CopyN(io.Discard, answer.Body, maxBody)
	o := result{outcome: refused, status: answer.StatusCode, after: provider.RetryAfter(answer.Header)}
	switch {
	case answer.StatusCode >= 200 && answer.StatusCode <= 299:
		o.outcome = delivered
	case answer.StatusCode == http.StatusGone:
		o.outcome = gone
	}
	return o
}

// sign adds the headers that prove to the receiver that an event is ours, and not a replay.
func sign(h http.Header, secret, eventID string, now time.Time, body []byte) error {
	if err := configv1.CheckWebhookSecret(secret); err != nil { // an empty secret would sign too
		return err
	}
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	signature, err := w.Sign(eventID, now, body)
	if err != nil {
		return err
	}
	h.Set(standardwebhooks.HeaderWebhookID, eventID)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return nil
}

// reason describes why there was no answer, without the address, which may be secret.
func reason(err error) string {
	var late net.Error
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedNetwork):
		return blocked
	case errors.As(err, &late) && late.Timeout():
		return timeout
	}
	return unreachable
}
