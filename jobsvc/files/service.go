// Package files serves OpenAI's files and uploads: a record in etcd for each, and its bytes in the blob store. A
// request's body streams into it, without being held in memory or on a disk between.
//
// Bytes and records are kept in step by their order. A blob is written before the record that names it, and a record
// is removed before its blob, so that a record always has its bytes. What is left over if a process was killed
// between the two, or where etcd's answer did not come, is a blob without a record, and Collect removes it a day
// later. It knows by keys of its own, one for each file, written and removed with the record: a blob's name tells no
// tenant. Blobs of parts need none, because no upload lives for a day. The blob store and etcd name one another, so
// that nothing is collected with the wrong etcd, which has none of the records.
//
// When a transaction fails, its blob may be removed only if it is certain that the
// transaction did nothing. etcd that did not answer may have made it.
package files

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	"gocloud.dev/blob"
	"golang.org/x/sync/errgroup"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/quota"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Options configure a Service. All but Gate and Memory are required.
type Options struct {
	Store  *store.Store
	Bucket *blob.Bucket
	Now    func() time.Time
	Gate   *quota.Gate    // nil: nothing bounds what tenants write
	Memory *memory.Budget // nil: nothing bounds what is in memory
	Log    *zap.Logger
}

// A Service serves files and uploads. It is safe for concurrent use.
type Service struct {
	Options
	joins sync.Map // of uploads whose parts are being joined: a channel by id, which closes at the end
}

// New returns a service.
func New(o Options) *Service { return &Service{Options: o} }

// Register adds the routes.
func (s *Service) Register(mux *http.ServeMux) {
	for pattern, f := range map[string]rest.HandlerFunc{
		"POST /v1/files":                 s.Gate.Create(s.create),
		"GET /v1/files":                  s.list,
		"GET /v1/files/{id}":             s.retrieve,
		"DELETE /v1/files/{id}":          s.Gate.Change(s.remove),
		"GET /v1/files/{id}/content":     s.content,
		"POST /v1/uploads":               s.Gate.Create(s.createUpload),
		"POST /v1/uploads/{id}/parts":    s.Gate.Create(s.addPart),
		"POST /v1/uploads/{id}/complete": s.Gate.Create(s.complete),
		"POST /v1/uploads/{id}/cancel":   s.Gate.Change(s.cancel),
	} {
		mux.Handle(pattern, rest.Handler(s.Log, s.Memory, f))
	}
}

// Expiring are the names of the kinds that Expire removes.
func Expiring() []string { return []string{Kind.Name, uploads.Name, reservations.Name} }

// Expire removes a file or an upload whose time has come.
func (s *Service) Expire(ctx context.Context, e store.Expiry) error {
	switch e.Kind {
	case Kind.Name:
		return s.expireFile(ctx, e)
	case uploads.Name:
		return s.expireUpload(ctx, e)
	case reservations.Name:
		return s.expireReservation(ctx, e)
	}
	return fmt.Errorf("%q are neither files nor uploads", e.Kind)
}

// inUse is how long a file that has expired is left to the work that uses it, before that is asked again.
const inUse = 10 * time.Minute

func (s *Service) expireFile(ctx context.Context, e store.Expiry) error {
	f, err := Kind.Get(ctx, s.Store, e.Tenant, e.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	err = s.drop(ctx, f)
	if errors.Is(err, store.ErrConflict) {
		t := s.Store.Begin()
		e.At = s.Now().Add(inUse).Unix()
		t.ExpireAt(e)
		return t.Commit(ctx)
	}
	return err
}

// drop removes a file. The error is store.ErrConflict if it is in use, or is gone already.
func (s *Service) drop(ctx context.Context, f *store.Record[File]) error {
	t := s.Store.Begin()
	Remove(t, f)
	if err := t.Commit(ctx); err != nil {
		return err
	}
	s.deleteBlobs(ctx, BlobOf(f.ID))
	return nil
}

// deleteBlobs deletes blobs that have no record any more, also for a client who has gone. What cannot be deleted is
// left to Collect.
func (s *Service) deleteBlobs(ctx context.Context, names ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(16)
	for _, name := range names {
		g.Go(func() error {
			if err := s.Bucket.Delete(ctx, name); err != nil && !blobstore.IsMissing(err) {
				return err
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		s.Log.Warn("blobs were not deleted; they are collected later", zap.Error(err))
	}
}

// certain reports whether an error of a transaction means that it did nothing.
func certain(err error) bool {
	_, answered := errors.AsType[*openai.Error](err)
	_, over := errors.AsType[*store.QuotaError](err)
	return answered || over || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) ||
		errors.Is(err, etcdspace.ErrReserved)
}
