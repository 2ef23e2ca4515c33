package jobsvc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Batch returns a batch, or a 404 if there is none.
func (i *Inspector) Batch(ctx context.Context, id string) (adminapi.TenantObject, error) {
	r, err := find(ctx, i.store, batches.Kind, "batch", id)
	if err != nil {
		return adminapi.TenantObject{}, err
	}
	return batchObject(r)
}

// batchObject returns a batch with what its lines meet while it runs.
func batchObject(r *store.Record[batches.Batch]) (adminapi.TenantObject, error) {
	o, err := tenantObject(r, r.Value.Key, batches.Show)
	o.Progress = batches.Progress(r)
	return o, err
}

// mostRunning is how many batches that run are looked at.
const mostRunning = 200

// Running returns the oldest batches that the job service is to answer.
func (i *Inspector) Running(ctx context.Context) ([]adminapi.RunningBatch, error) {
	found, err := batches.Waiting(ctx, i.store, i.etcd, mostRunning)
	var all []adminapi.RunningBatch
	for _, r := range found {
		if b := batches.Running(r); b != nil {
			all = append(all, *b)
		}
	}
	return all, err
}

// CancelBatch asks for the end of a batch, as its client can. It returns a 409 if the batch has ended another way.
func (i *Inspector) CancelBatch(ctx context.Context, id string) (adminapi.TenantObject, error) {
	r, err := find(ctx, i.store, batches.Kind, "batch", id)
	if err == nil {
		r, err = batches.Cancel(ctx, i.store, r.Tenant, id, time.Now())
	}
	if err != nil {
		return adminapi.TenantObject{}, err
	}
	return batchObject(r)
}

// BatchFailures returns up to limit failed lines of a batch, as [batches.Failures] does.
func (i *Inspector) BatchFailures(ctx context.Context, id string, limit int) ([]adminapi.BatchFailure, error) {
	r, err := find(ctx, i.store, batches.Kind, "batch", id)
	if err != nil {
		return nil, err
	}
	if i.blobs == nil {
		return nil, errNoBlobs()
	}
	return batches.Failures(ctx, i.blobs, r, limit)
}

// BatchFile opens the file of a batch: input, output or error. The caller closes it. It returns a 404 if the batch has
// no such file.
func (i *Inspector) BatchFile(ctx context.Context, id, which string) (name string, content io.ReadCloser, err error) {
	r, err := find(ctx, i.store, batches.Kind, "batch", id)
	if err != nil {
		return "", nil, err
	}
	if i.blobs == nil {
		return "", nil, errNoBlobs()
	}
	file := map[string]string{"input": r.Value.InputFile, "output": r.Value.OutputFile, "error": r.Value.ErrorFile}[which]
	f, err := files.Kind.Get(ctx, i.store, r.Tenant, file)
	if file == "" || errors.Is(err, store.ErrNotFound) {
		return "", nil, notFound(fmt.Sprintf("The batch %q has no %s file, or it was deleted.", id, which))
	}
	if err != nil {
		return "", nil, err
	}
	content, err = files.Open(ctx, i.blobs, file, 0)
	if errors.Is(err, files.ErrMissing) {
		err = notFound(fmt.Sprintf("The content of the %s file is missing from the blob store.", which))
	}
	return f.Value.Filename, content, err
}

// find searches an object in all tenants, because its id does not name the tenant. What is its name in the error.
func find[T any](ctx context.Context, s *store.Store, kind store.Kind[T], what, id string) (*store.Record[T], error) {
	tenants, err := kind.Tenants(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, t := range tenants {
		r, err := kind.Get(ctx, s, t, id)
		if !errors.Is(err, store.ErrNotFound) {
			return r, err
		}
	}
	return nil, notFound(fmt.Sprintf("There is no %s %q.", what, id))
}

func notFound(message string) error {
	return openai.CodeNotFound.New("%s", message)
}

func errNoBlobs() error {
	return openai.CodeJobsUnavailable.New("The control plane cannot read the files of batches. Start it with --blobs, as the job service.")
}
