package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/id"
)

// Keys in etcd.
const (
	root    = "/modelgate/alerts/"
	current = root + "current/" // and the id of an alert
	events  = root + "events/"  // and the id of an event
	results = root + "results/" // and the id of an event, a slash and a receiver
	outbox  = root + "outbox/"  // and a receiver, a slash and the id of an event

	// maxWaiting bounds the outbox. What would be one more is given up at once, which the history says.
	maxWaiting = 1000
	// maxEvents bounds the history.
	maxEvents = 500
	// atOnce bounds what of the history is deleted in one transaction.
	atOnce = 50
)

// errLost is returned if another control plane has changed the same, or leads by now.
var errLost = errors.New("another control plane has changed it")

// An item is a delivery that waits, with the key of etcd that it is under.
type item struct {
	Event    adminapi.AlertEvent    `json:"event"`
	Delivery adminapi.AlertDelivery `json:"delivery"`

	key      string
	revision int64
}

// A store keeps alerts in etcd. It holds nothing.
type store struct{ etcd *clientv3.Client }

// alerts returns the alerts by id, and the revision of each.
func (s store) alerts(ctx context.Context) (map[string]adminapi.Alert, map[string]int64, error) {
	found, revisions := map[string]adminapi.Alert{}, map[string]int64{}
	r, err := s.etcd.Get(ctx, current, clientv3.WithPrefix())
	if err != nil {
		return nil, nil, fmt.Errorf("reading the alerts: %w", err)
	}
	for _, kv := range r.Kvs {
		name := strings.TrimPrefix(string(kv.Key), current)
		var a adminapi.Alert
		_ = json.Unmarshal(kv.Value, &a) // what cannot be read is an alert of no rule, and so it ends
		found[name], revisions[name] = a, kv.ModRevision
	}
	return found, revisions, nil
}

// apply commits a change while lead holds, with the messages that tell of it: both or neither.
func (s store) apply(ctx context.Context, lead clientv3.Cmp, c change, revision int64,
	room int) (told int, err error) {
	ops := []clientv3.Op{clientv3.OpDelete(current + c.id)}
	if c.after != nil {
		ops[0] = put(current+c.id, c.after)
	}
	if c.event != nil {
		e := *c.event
		e.ID, e.Message = id.New("alert"), line(e.Message, maxMessage)
		waiting := e.Deliveries
		e.Deliveries = nil
		ops = append(ops, put(events+e.ID, e))
		for _, d := range waiting {
			if told >= room {
				d.State, d.Error = adminapi.DeliveryGivenUp, "too many messages wait"
				ops = append(ops, put(results+e.ID+"/"+d.Receiver, d))
				continue
			}
			told++
			ops = append(ops, put(outbox+d.Receiver+"/"+e.ID, item{Event: e, Delivery: d}))
		}
	}
	return told, s.commit(ctx, []clientv3.Cmp{lead, clientv3.Compare(clientv3.ModRevision(current+c.id), "=", revision)},
		ops)
}

// settle records the result of a delivery while lead holds: it waits on, or has ended.
func (s store) settle(ctx context.Context, lead clientv3.Cmp, i item) error {
	ops := []clientv3.Op{put(i.key, i)}
	if i.Delivery.State != adminapi.DeliveryWaiting {
		ops = []clientv3.Op{clientv3.OpDelete(i.key), put(results+i.Event.ID+"/"+i.Delivery.Receiver, i.Delivery)}
	}
	return s.commit(ctx, []clientv3.Cmp{lead, clientv3.Compare(clientv3.ModRevision(i.key), "=", i.revision)}, ops)
}

func (s store) commit(ctx context.Context, compare []clientv3.Cmp, ops []clientv3.Op) error {
	r, err := s.etcd.Txn(ctx).If(compare...).Then(ops...).Commit()
	if err != nil {
		return fmt.Errorf("storing an alert: %w", err)
	}
	if !r.Succeeded {
		return errLost
	}
	return nil
}

// put returns what stores plain data.
func put(key string, v any) clientv3.Op {
	value, _ := json.Marshal(v) // it has nothing that cannot be written
	return clientv3.OpPut(key, string(value))
}

// waiting returns the outbox: by receiver, the oldest first.
func (s store) waiting(ctx context.Context) (map[string][]item, error) {
	r, err := s.etcd.Get(ctx, outbox, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("reading the outbox of alerts: %w", err)
	}
	all := map[string][]item{}
	for _, kv := range r.Kvs {
		receiver, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), outbox), "/")
		i := item{key: string(kv.Key), revision: kv.ModRevision}
		_ = json.Unmarshal(kv.Value, &i) // what cannot be read is old, and is given up
		i.Delivery.Receiver = receiver
		all[receiver] = append(all[receiver], i)
	}
	return all, nil
}

// history returns the newest events with their deliveries, the newest first.
func (s store) history(ctx context.Context) ([]adminapi.AlertEvent, error) {
	r, err := s.etcd.Txn(ctx).Then(
		clientv3.OpGet(events, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend),
			clientv3.WithLimit(maxEvents)),
		clientv3.OpGet(results, clientv3.WithPrefix()), clientv3.OpGet(outbox, clientv3.WithPrefix())).Commit()
	if err != nil {
		return nil, fmt.Errorf("reading the history of alerts: %w", err)
	}
	told := map[string][]adminapi.AlertDelivery{}
	for _, kv := range r.Responses[1].GetResponseRange().Kvs {
		event, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), results), "/")
		var d adminapi.AlertDelivery
		if json.Unmarshal(kv.Value, &d) == nil {
			told[event] = append(told[event], d)
		}
	}
	for _, kv := range r.Responses[2].GetResponseRange().Kvs {
		var i item
		if json.Unmarshal(kv.Value, &i) == nil {
			told[i.Event.ID] = append(told[i.Event.ID], i.Delivery)
		}
	}
	all := []adminapi.AlertEvent{}
	for _, kv := range r.Responses[0].GetResponseRange().Kvs {
		var e adminapi.AlertEvent
		if json.Unmarshal(kv.Value, &e) == nil {
			e.Deliveries = told[e.ID]
			slices.SortFunc(e.Deliveries, func(a, b adminapi.AlertDelivery) int {
				return strings.Compare(a.Receiver, b.Receiver)
			})
			all = append(all, e)
		}
	}
	return all, nil
}

// prune deletes the oldest events above maxEvents, with their results.
func (s store) prune(ctx context.Context) error {
	for {
		r, err := s.etcd.Get(ctx, events, clientv3.WithPrefix(), clientv3.WithLimit(atOnce), clientv3.WithKeysOnly())
		if err != nil {
			return fmt.Errorf("pruning the history of alerts: %w", err)
		}
		old := min(int(r.Count)-maxEvents, len(r.Kvs))
		if old <= 0 {
			return nil
		}
		var ops []clientv3.Op
		for _, kv := range r.Kvs[:old] {
			name := strings.TrimPrefix(string(kv.Key), events)
			ops = append(ops, clientv3.OpDelete(string(kv.Key)),
				clientv3.OpDelete(results+name+"/", clientv3.WithPrefix()))
		}
		if _, err := s.etcd.Txn(ctx).Then(ops...).Commit(); err != nil {
			return fmt.Errorf("pruning the history of alerts: %w", err)
		}
	}
}
