// Package webhooks tells an operator's own services how batches and fine-tuning jobs have ended, as Standard Webhooks
// has it (https://github.com/standard-webhooks/standard-webhooks): events signed under the webhook's secret, delivered
// at least once, and again for three days where nobody takes them.
//
// The addresses are not to be trusted. Whoever may configure a webhook must not thereby reach what
// only the job service can, so that every connection is checked once its address is known, and no redirect is
// followed.
package webhooks

import (
	"encoding/json"
	"net/netip"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// kind is the queue's kind of deliveries.
const kind = "webhook"

// Limits are what an operator can choose.
type Limits struct {
	// Networks may be reached although they are not public; and only they may be reached without TLS.
	Networks []netip.Prefix
	// Concurrent is how many deliveries are under way at once. 0: 8.
	Concurrent int
}

// Options are what a Service needs. All but Limits are required.
type Options struct {
	Store      *store.Store
	Queue      *queue.Queue
	Config     func() *config.Config
	Now        func() time.Time
	Limits     Limits
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

// A Service announces events and delivers them. It is safe for concurrent use.
type Service struct {
	Options
	clients    clients
	ailing     ailing
	deliveries *prometheus.CounterVec // by outcome
}

// New returns a service that delivers once Run is called.
func New(o Options) (*Service, error) {
	if o.Limits.Concurrent == 0 {
		o.Limits.Concurrent = 8
	}
	reach, err := newClients(o.Limits.Networks)
	if err != nil {
		return nil, err
	}
	s := &Service{Options: o, clients: reach, ailing: ailing{silent: map[string]bool{}, running: map[string]int{}},
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "modelgate_webhook_deliveries_total", Help: "Attempts to deliver events to webhooks, by outcome.",
		}, []string{"outcome"})}
	return s, o.Registerer.Register(s.deliveries)
}

// An event is what webhooks are told: that an object has come to an end.
type event struct {
	ID     string       `json:"id"`
	Type   string       `json:"type"`
	Object string       `json:"object"` // its id
	Tenant store.Tenant `json:"tenant"` // whose it is
	At     int64        `json:"at"`     // Unix time in seconds
}

// body is what is posted.
func (e event) body() ([]byte, error) {
	return json.Marshal(struct {
		ID        string            `json:"id"`
		Object    string            `json:"object"`
		CreatedAt int64             `json:"created_at"`
		Type      string            `json:"type"`
		Data      map[string]string `json:"data"`
	}{e.ID, "event", e.At, e.Type, map[string]string{"id": e.Object}})
}

// matches reports whether a webhook is to be told of the event.
func (e event) matches(w *configv1.Webhook) bool {
	return w.GetOrganization() == e.Tenant.Organization && w.GetProject() == e.Tenant.Project &&
		(len(w.GetEvents()) == 0 || slices.Contains(w.GetEvents(), e.Type))
}

// eventID is always the same for an event of an object, which has no more than one of each type.
func eventID(typ, object string) string {
	created := time.Time{}
	if u, err := ulid.ParseStrict(object[max(0, len(object)-ulid.EncodedSize):]); err == nil {
		created = u.Timestamp()
	}
	return "evt_" + id.Derived(created, typ+" "+object)
}

// A delivery is an event for one webhook, as the queue holds it. Without a webhook it is for all that match: they were
// not known yet.
type delivery struct {
	Event     event  `json:"event"`
	Webhook   string `json:"webhook,omitempty"`
	Attempts  int    `json:"attempts,omitempty"` // that have failed
	PutOff    int    `json:"put_off,omitempty"`  // how often it was, since the last of them
	NotBefore int64  `json:"-"`                  // of the next one, Unix time in seconds; 0: at once
}

// id is the delivery's in the queue: however often it is put there, it is there once.
func (d delivery) id() string {
	if d.Webhook == "" {
		return d.Event.ID
	}
	return d.Event.ID + "." + d.Webhook
}

// put adds a delivery to the queue, or replaces it there.
func (s *Service) put(t *store.Txn, d delivery) {
	value, err := json.Marshal(d)
	if err != nil { // it is plain data
		s.Log.Error("an event cannot be written", zap.String("webhook", d.Webhook), zap.String("event", d.Event.Type),
			zap.Error(err))
		return
	}
	t.Do(queue.Put(queue.Item{Kind: kind, ID: d.id(), NotBefore: d.NotBefore, Value: value}))
}

// Announce adds to a transaction that the webhooks of a tenant are told of an event of an object, such as
// batch.completed, at a time. They are told once the transaction is committed, whatever becomes of this replica.
func (s *Service) Announce(t *store.Txn, tenant store.Tenant, typ, object string, at time.Time) {
	e := event{ID: eventID(typ, object), Type: typ, Object: object, Tenant: tenant, At: at.Unix()}
	for _, d := range s.each(s.Config(), e) {
		s.put(t, d)
	}
}

// each returns an event's deliveries. Where the configuration is not known yet, that is one for whoever knows it.
func (s *Service) each(known *config.Config, e event) []delivery {
	if known == nil {
		return []delivery{{Event: e}}
	}
	var all []delivery
	for _, w := range known.Webhooks {
		if e.matches(w) {
			all = append(all, delivery{Event: e, Webhook: w.GetName()})
		}
	}
	return all
}
