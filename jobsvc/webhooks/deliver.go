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

// configPause is how often it is looked whether the webhooks are known by now.
const configPause = 100 * time.Millisecond

// Run delivers until ctx ends, and returns when nothing is under way any more.
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

// handle makes one attempt at a delivery, and writes down what came of it.
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
	if hook == nil || !d.Event.matches(hook) { // it was deleted, disabled or changed since
		s.deliveries.WithLabelValues(dropped).Inc()
		return s.settle(ctx, c, nil)
	}
	if !s.ailing.enter(d.Webhook) {
		return s.putOff(ctx, c, d)
	}
	r := s.attempt(ctx, hook, d.Event)
	s.ailing.leave(d.Webhook, r.outcome)
	if ctx.Err() != nil { // whoever takes it up makes the attempt again
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

// record writes down what came of an attempt: that the delivery is done, or when it is tried again.
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

// putOff leaves a delivery to a webhook that does not answer for later, or gives it up where it is old.
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

// later has a claimed delivery made after a pause.
func (s *Service) later(ctx context.Context, c *queue.Claim, d delivery, pause time.Duration) error {
	t := s.Store.Begin()
	t.Require(c.Held())
	d.NotBefore = s.Now().Add(pause).Unix()
	s.put(t, d)
	return t.Commit(ctx)
}

// settle takes a claimed delivery out of the queue, and puts others in.
func (s *Service) settle(ctx context.Context, c *queue.Claim, next []delivery) error {
	t := s.Store.Begin()
	t.Require(c.Held())
	t.Do(queue.Remove(kind, c.ID))
	for _, d := range next {
		s.put(t, d)
	}
	return t.Commit(ctx)
}

// Outcomes of deliveries, as metrics and logs have them.
const (
	delivered   = "delivered"
	refused     = "refused"     // an answer that is not of the 200s
	gone        = "gone"        // 410: nobody wants such events any more
	blocked     = "blocked"     // the address is none that may be reached
	timeout     = "timeout"     // no answer in time
	unreachable = "unreachable" // no connection, or it broke
	unsigned    = "unsigned"    // the webhook cannot be used: of its secret or its URL
	dropped     = "dropped"     // the webhook is not there any more
)

// A result is what came of an attempt.
type result struct {
	outcome string
	status  int           // of the answer, where there was one
	after   time.Duration // for how long the target wants to be left alone
}

// maxBody is how much of an answer is read, in bytes. Nothing in it matters.
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
	defer func() { _ = answer.Body.Close() }() // nothing in it matters
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

// sign adds the headers by which the receiver knows that an event is ours, and that it is no copy of an old one.
func sign(h http.Header, secret, eventID string, now time.Time, body []byte) error {
	if err := configv1.CheckWebhookSecret(secret); err != nil { // one that is not there would sign, too
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

// reason says why there was no answer, without the address, which may hold what only the receiver is to know.
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
