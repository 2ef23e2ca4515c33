// Package webhooks reports the end of batches and fine-tuning jobs to an operator's services, as Standard Webhooks
// defines it (https://github.com/standard-webhooks/standard-webhooks). Events are signed with the webhook's secret,
// delivered at least once, and retried for three days.
//
// The addresses are not trusted: package webhook checks every connection.
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
	"github.com/modelgate/modelgate/internal/webhook"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// kind is the queue's kind of deliveries.
const kind = "webhook"

// Limits are the operator's settings.
type Limits struct {
	// Networks may be reached although they are not public, and without TLS.
	Networks []netip.Prefix
	// Concurrent bounds the concurrent deliveries. 0: 8.
	Concurrent int
}

// Options are the dependencies of a Service. All but Limits are required.
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
	client       *webhook.Client
	unresponsive unresponsive
	deliveries   *prometheus.CounterVec // by outcome
}

// New returns a service that delivers after Run is called.
func New(o Options) (*Service, error) {
	if o.Limits.Concurrent == 0 {
		o.Limits.Concurrent = 8
	}
	client, err := webhook.New(o.Limits.Networks)
	if err != nil {
		return nil, err
	}
	s := &Service{Options: o, client: client,
		unresponsive: unresponsive{silent: map[string]bool{}, running: map[string]int{}},
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "modelgate_webhook_deliveries_total", Help: "Attempts to deliver events to webhooks, by outcome.",
		}, []string{"outcome"})}
	return s, o.Registerer.Register(s.deliveries)
}

// An event reports the end of an object to webhooks.
type event struct {
	ID     string       `json:"id"`
	Type   string       `json:"type"`
	Object string       `json:"object"` // its id
	Tenant store.Tenant `json:"tenant"` // whose it is
	At     int64        `json:"at"`     // Unix time in seconds
}

// body returns the body of the request.
func (e event) body() ([]byte, error) {
	return webhook.Event(e.ID, e.At, e.Type, map[string]string{"id": e.Object})
}

// matches reports whether a webhook receives the event.
func (e event) matches(w *configv1.Webhook) bool {
	return w.GetOrganization() == e.Tenant.Organization && w.GetProject() == e.Tenant.Project &&
		(len(w.GetEvents()) == 0 || slices.Contains(w.GetEvents(), e.Type))
}

// eventID returns a stable id for an event of an object. An object has at most one event of each type.
func eventID(typ, object string) string {
	created := time.Time{}
	if u, err := ulid.ParseStrict(object[max(0, len(object)-ulid.EncodedSize):]); err == nil {
		created = u.Timestamp()
	}
	return "evt_" + id.Derived(created, typ+" "+object)
}

// A delivery is an event for one webhook, in the queue. Without a webhook it is for all that match, because the
// configuration was not known yet.
type delivery struct {
	Event     event  `json:"event"`
	Webhook   string `json:"webhook,omitempty"`
	Attempts  int    `json:"attempts,omitempty"` // that have failed
	NotBefore int64  `json:"-"`                  // of the next attempt, in Unix seconds; 0: at once
}

// id returns the delivery's id in the queue, which makes it unique there.
func (d delivery) id() string {
	if d.Webhook == "" {
		return d.Event.ID
	}
	return d.Event.ID + "." + d.Webhook
}

// put adds a delivery to the queue, or replaces it.
func (s *Service) put(t *store.Txn, d delivery) {
	value, err := json.Marshal(d)
	if err != nil { // it is plain data
		s.Log.Error("an event cannot be written", zap.String("webhook", d.Webhook), zap.String("event", d.Event.Type),
			zap.Error(err))
		return
	}
	t.Do(queue.Put(queue.Item{Kind: kind, ID: d.id(), NotBefore: d.NotBefore, Value: value}))
}

// Announce adds an event of an object, such as batch.completed, to a transaction. The webhooks of the tenant get it
// after the commit, even if this replica dies.
func (s *Service) Announce(t *store.Txn, tenant store.Tenant, typ, object string, at time.Time) {
	e := event{ID: eventID(typ, object), Type: typ, Object: object, Tenant: tenant, At: at.Unix()}
	for _, d := range s.each(s.Config(), e) {
		s.put(t, d)
	}
}

// each returns the deliveries of an event. If the configuration is not known yet, it returns one for a later worker.
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
