package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// scanAtOnce is how many keys of the outbox are read at once while it is searched.
const scanAtOnce = 100

// Filters of [AuditLog.List] beside those of the API: only entries that a tenant's people see, in the form that
// they see.
const (
	FilterTenant = "tenant"
	FilterAs     = "as"
)

// List returns a page of the entries, newest first, including those that are not in the store yet. It takes the
// filters of [adminapi.Client.Audit], filterTenant and filterAs.
func (a *Log) List(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.AuditEntry], error) {
	none := adminapi.Page[adminapi.AuditEntry]{Items: []adminapi.AuditEntry{}}
	wanted, err := auditFilter(o)
	if err != nil {
		return none, err
	}
	// The outbox first: what is taken to the store in the meantime is then found twice, and not nowhere.
	waiting, err := a.waiting(ctx, o.Limit+1, wanted)
	if err != nil {
		return none, err
	}
	page := none
	if a.store != nil {
		if page, err = a.store.Audit(ctx, o); err != nil {
			return none, ledger.Unavailable(err)
		}
	}
	all := append(waiting, page.Items...)
	slices.SortStableFunc(all, func(a, b adminapi.AuditEntry) int { return strings.Compare(b.ID, a.ID) })
	all = slices.CompactFunc(all, func(a, b adminapi.AuditEntry) bool { return a.ID == b.ID })
	more := page.Next != ""
	if len(all) > o.Limit {
		all, more = all[:o.Limit], true
	}
	page = none
	for _, e := range all {
		if e, ok := shownTo(o.Filters[FilterAs], e); ok {
			page.Items = append(page.Items, e)
		}
	}
	if more && len(all) > 0 {
		page.Next = all[len(all)-1].ID
	}
	return page, nil
}

// waiting returns the newest entries of the outbox that are wanted, at least so many if there are.
func (a *Log) waiting(ctx context.Context, most int,
	wanted func(adminapi.AuditEntry) bool) ([]adminapi.AuditEntry, error) {
	var entries []adminapi.AuditEntry
	end := clientv3.GetPrefixRangeEnd(outbox)
	for {
		r, err := a.etcd.Get(ctx, outbox, clientv3.WithRange(end), clientv3.WithLimit(scanAtOnce),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		for _, kv := range r.Kvs {
			for _, e := range entriesOf(kv) {
				if wanted(e) {
					entries = append(entries, e)
				}
			}
			end = string(kv.Key)
		}
		if !r.More || len(entries) >= most {
			return entries, nil
		}
	}
}

// auditFilter returns which entries are asked for.
func auditFilter(o adminapi.ListOptions) (func(adminapi.AuditEntry) bool, error) {
	start, end, err := timesOf(o.Filters)
	if err != nil {
		return nil, err
	}
	equal := func(name, value string) bool { return o.Filters[name] == "" || o.Filters[name] == value }
	return func(e adminapi.AuditEntry) bool {
		if _, ok := shownTo(o.Filters[FilterTenant], e); !ok {
			return false
		}
		if e, _ = shownTo(o.Filters[FilterAs], e); e.ID == "" {
			return false
		}
		return (o.After == "" || e.ID < o.After) && (start.IsZero() || !e.At.Before(start)) &&
			(end.IsZero() || e.At.Before(end)) &&
			equal("actor", e.Actor) && equal("kind", e.Kind) && equal("name", e.Name) && equal("action", e.Action)
	}, nil
}

// timesOf reads start and end. A time that is not given is zero.
func timesOf(filters map[string]string) (start, end time.Time, err error) {
	for name, t := range map[string]*time.Time{"start": &start, "end": &end} {
		if filters[name] == "" {
			continue
		}
		if *t, err = httpapi.UnixTime(name, filters[name]); err != nil {
			return start, end, err
		}
	}
	return start, end, nil
}
