package jobsvc

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"gocloud.dev/blob"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/finetuning"
	"github.com/modelgate/modelgate/jobsvc/quota"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// An Inspector shows the jobs of all tenants to operators. It works without a running job service, and changes nothing
// but that a batch is to be cancelled. It is safe for concurrent use.
type Inspector struct {
	etcd  *clientv3.Client
	store *store.Store
	gate  *quota.Gate
	blobs *blob.Bucket // nil: files of batches cannot be read
}

// NewInspector returns an inspector for the job service with its state in an etcd. Without its blobs, archived jobs
// are not found, and the files of batches cannot be read.
func NewInspector(etcd *clientv3.Client, blobs *blob.Bucket) *Inspector {
	objects := configstore.New(etcd, func(configv1.Object) error { return nil }, zap.NewNop())
	i := &Inspector{etcd, store.New(etcd), quota.New(quota.Options{Objects: objects, Now: time.Now}), blobs}
	if blobs != nil {
		i.store = i.store.Archived(blobs)
	}
	return i
}

// Batches returns a page of the batches of all tenants, newest first. The filters are organization, project, key and
// status.
func (i *Inspector) Batches(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.TenantObject],
	error) {
	return inspect(ctx, i.store, batches.Kind, o, batchObject, func(b *batches.Batch) (key, status string) {
		return b.Key, string(b.Status)
	})
}

// FineTuningJobs returns a page of the fine-tuning jobs of all tenants, as Batches does.
func (i *Inspector) FineTuningJobs(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.TenantObject],
	error) {
	return inspect(ctx, i.store, finetuning.Kind, o, jobObject, keyAndStatus)
}

func keyAndStatus(j *finetuning.Job) (key, status string) { return j.Key, string(j.Status) }

// FineTuningJob returns a job, or a 404 if there is none.
func (i *Inspector) FineTuningJob(ctx context.Context, id string) (adminapi.TenantObject, error) {
	r, err := find(ctx, i.store, finetuning.Kind, "fine-tuning job", id)
	if err != nil {
		return adminapi.TenantObject{}, err
	}
	return jobObject(r)
}

func jobObject(r *store.Record[finetuning.Job]) (adminapi.TenantObject, error) {
	return tenantObject(r, r.Value.Key, finetuning.Show)
}

// FineTuningEvents returns a page of the events of a job, newest first.
func (i *Inspector) FineTuningEvents(ctx context.Context, id string,
	o adminapi.ListOptions) (adminapi.Page[json.RawMessage], error) {
	page := adminapi.Page[json.RawMessage]{Items: []json.RawMessage{}}
	of, err := find(ctx, i.store, finetuning.Kind, "fine-tuning job", id)
	if err != nil {
		return page, err
	}
	found, more, err := finetuning.Events(ctx, i.store, of, store.Page{After: o.After, Limit: o.Limit})
	if err != nil {
		return page, rest.Cursor(err, o.After)
	}
	for _, r := range found {
		text, err := json.Marshal(finetuning.ShowEvent(r))
		if err != nil {
			return page, err
		}
		page.Items = append(page.Items, text)
	}
	if more {
		page.Next = found[len(found)-1].ID
	}
	return page, nil
}

// inspect merges the newest objects of every tenant.
func inspect[T any](ctx context.Context, s *store.Store, kind store.Kind[T], o adminapi.ListOptions,
	show func(*store.Record[T]) (adminapi.TenantObject, error),
	describe func(*T) (key, status string)) (adminapi.Page[adminapi.TenantObject], error) {
	page := adminapi.Page[adminapi.TenantObject]{Items: []adminapi.TenantObject{}}
	tenants, err := kind.Tenants(ctx, s)
	if err != nil {
		return page, err
	}
	equal := func(filter, value string) bool { return o.Filters[filter] == "" || o.Filters[filter] == value }
	keep := func(r *store.Record[T]) bool {
		key, status := describe(&r.Value)
		return equal("key", key) && equal("status", status) &&
			strings.Contains(strings.ToLower(r.ID), strings.ToLower(o.Query))
	}
	var all []*store.Record[T] // one more than the page has
	wanted := store.Page{After: o.After, Limit: o.Limit + 1}
	for _, t := range tenants {
		if !equal("organization", t.Organization) || !equal("project", t.Project) {
			continue
		}
		found, _, err := kind.List(ctx, s, t, wanted, keep)
		if err != nil {
			return page, rest.Cursor(err, o.After)
		}
		// Ids sort by the time of creation.
		all = append(all, found...)
		slices.SortFunc(all, func(a, b *store.Record[T]) int { return strings.Compare(b.ID, a.ID) })
		if len(all) > o.Limit {
			all = all[:o.Limit+1]
			wanted.Until = all[o.Limit].ID // older objects of other tenants are not read
		}
	}
	more := len(all) > o.Limit
	all = all[:min(len(all), o.Limit)]
	for _, r := range all {
		item, err := show(r)
		if err != nil {
			return page, err
		}
		page.Items = append(page.Items, item)
	}
	if more && len(all) > 0 {
		page.Next = all[len(all)-1].ID
	}
	return page, nil
}

func tenantObject[T any](r *store.Record[T], key string, show func(*store.Record[T]) any) (adminapi.TenantObject,
	error) {
	object, err := json.Marshal(show(r))
	return adminapi.TenantObject{Organization: r.Tenant.Organization, Project: r.Tenant.Project, Key: key,
		Object: object}, err
}
