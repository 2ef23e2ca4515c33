// Package alerts notifies people: rules of the configuration say when, and receivers say whom. An alert fires once
// for each subject, such as a provider or a budget. Receivers are also notified when it ends.
//
// Step decides what changes and does nothing else. A change and its messages are one transaction of etcd, and the
// messages wait there until they are delivered: a control plane that dies loses none. One control plane of several
// decides and delivers, the one that holds a lock in etcd.
package alerts

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/leader"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/internal/webhook"
)

const (
	evaluateEvery = 30 * time.Second
	deliverEvery  = time.Second
	timeout       = 10 * time.Second
)

// A Ledger is asked for what happened.
type Ledger interface {
	Failures(ctx context.Context, since time.Time, of ledger.Restriction, provider string) (all, failed int64, err error)
	Refusals(ctx context.Context, since time.Time, statuses ...int64) ([]ledger.Refusal, error)
}

// A Plane is the control plane.
type Plane interface {
	// State returns the configuration, and false while it is not known.
	State() (configstore.State, bool)
	// ReceiverCredential returns the credential of a receiver in clear; a zero value if it has none.
	ReceiverCredential(*configv1.AlertReceiver) (secret.Value, error)
}

// Options configure a Service. Every field is required unless its comment says otherwise.
type Options struct {
	Etcd   *clientv3.Client
	Facts  func(context.Context) (attention.Facts, error)
	Ledger Ledger
	// Incidents returns the open incidents, and if asked others.
	Incidents func(ctx context.Context, closed bool) ([]adminapi.Incident, error)
	Plane     Plane
	// KeyName returns the name of a key for people; empty: it has none. Nil: none have.
	KeyName func(id string) string
	// Networks may be reached although they are not public, and without TLS. Optional.
	Networks []netip.Prefix
	Log      *zap.Logger
	// Interval is the time between evaluations. 0: 30 s.
	Interval time.Duration
	// Now is the clock. Nil: the system's.
	Now func() time.Time
}

// A Service evaluates the rules and tells the receivers. It is safe for concurrent use.
type Service struct {
	options Options
	store   store
	sender  *sender
	kicked  chan struct{}
}

// New returns a service that does nothing before Run.
func New(o Options) (*Service, error) {
	o.Interval = cmp.Or(o.Interval, evaluateEvery)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.KeyName == nil {
		o.KeyName = func(string) string { return "" }
	}
	client, err := webhook.New(o.Networks)
	if err != nil {
		return nil, err
	}
	secure, plain, err := webhook.Dialers(o.Networks)
	if err != nil {
		return nil, err
	}
	return &Service{options: o, store: store{o.Etcd}, kicked: make(chan struct{}, 1),
		sender: &sender{client: client, secure: secure, plain: plain, credential: o.Plane.ReceiverCredential,
			named: adminapi.Named(func(id string) string { return cmp.Or(o.KeyName(id), id) })}}, nil
}

// Run evaluates and delivers until ctx ends, whenever this control plane holds the lock.
func (s *Service) Run(ctx context.Context) error {
	return leader.Task{Etcd: s.options.Etcd, Key: configstore.AlertsLeader, What: "alerts",
		Log: s.options.Log, Do: s.lead}.Run(ctx)
}

// lead works while the lock is held.
func (s *Service) lead(ctx context.Context, held clientv3.Cmp, _ func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.deliver(ctx, held)
	}()
	_ = timing.Every(ctx, s.options.Interval, func() {
		if err := s.evaluate(ctx, held); err != nil && ctx.Err() == nil {
			s.options.Log.Warn("alerts could not be evaluated", zap.Error(err))
		}
	})
	<-done
}

// evaluate makes the changes that are due now.
func (s *Service) evaluate(ctx context.Context, lead clientv3.Cmp) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Interval+timeout)
	defer cancel()
	state, ready := s.options.Plane.State()
	if !ready {
		return nil
	}
	known, revisions, err := s.store.alerts(ctx)
	if err != nil {
		return err
	}
	rules := configstore.All[*configv1.AlertRule](state)
	if len(rules)+len(known) == 0 {
		return nil
	}
	facts, err := s.options.Facts(ctx)
	if err != nil {
		return fmt.Errorf("gathering facts: %w", err)
	}
	now := s.options.Now().UTC()
	j := newJudge(now, facts, &s.options, state)
	var all []judged
	for _, r := range rules {
		all = append(all, j.of(ctx, r))
	}
	waiting, err := s.store.waiting(ctx)
	if err != nil {
		return err
	}
	room := maxWaiting
	for _, items := range waiting {
		room -= len(items)
	}
	for _, c := range step(now, all, known) {
		told, err := s.store.apply(ctx, lead, c, revisions[c.id], room)
		if err != nil {
			return err
		}
		room -= told
	}
	select {
	case s.kicked <- struct{}{}:
	default:
	}
	return s.store.prune(ctx)
}

// Alerts returns all alerts, those that fire first, and how the receivers are.
func (s *Service) Alerts(ctx context.Context) (adminapi.Alerts, error) {
	out := adminapi.Alerts{Items: []adminapi.Alert{}, Receivers: []adminapi.AlertReceiverStatus{}}
	known, _, err := s.store.alerts(ctx)
	if err != nil {
		return out, err
	}
	for _, a := range known {
		out.Items = append(out.Items, a)
	}
	slices.SortFunc(out.Items, func(a, b adminapi.Alert) int {
		return cmp.Or(strings.Compare(a.State, b.State), b.Since.Compare(a.Since), strings.Compare(a.Rule+a.Subject,
			b.Rule+b.Subject))
	})
	waiting, err := s.store.waiting(ctx)
	if err != nil {
		return out, err
	}
	state, _ := s.options.Plane.State()
	for _, r := range configstore.All[*configv1.AlertReceiver](state) {
		status := adminapi.AlertReceiverStatus{Name: r.GetName(), Kind: kindOf(r), Disabled: r.GetDisabled(),
			Waiting: len(waiting[r.GetName()])}
		if status.Waiting > 0 {
			status.Error = waiting[r.GetName()][0].Delivery.Error
		}
		out.Receivers = append(out.Receivers, status)
	}
	return out, nil
}

// History returns the newest events, the newest first.
func (s *Service) History(ctx context.Context) ([]adminapi.AlertEvent, error) {
	return s.store.history(ctx)
}

// Test sends a test message to a receiver, once, and reports what it did.
func (s *Service) Test(ctx context.Context, r *configv1.AlertReceiver) adminapi.AlertTest {
	e := newTest(s.options.Now().UTC())
	got := s.sender.send(ctx, r, e)
	if got.outcome != webhook.Delivered {
		return adminapi.AlertTest{Message: "The test message was not delivered: " + got.says + "."}
	}
	return adminapi.AlertTest{OK: true, Message: "The receiver has taken the test message."}
}

// line returns text as one line of at most so many bytes.
func line(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}
