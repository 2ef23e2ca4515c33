package files

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// recordSize is about what a file or an upload takes in etcd besides its name: with its index and its expiry.
const recordSize = 1 << 10

// partSize is about what the record of a part takes.
const partSize = 256

// Counted are the kinds here that count for quotas.
func Counted() []store.Counted { return []store.Counted{Kind, uploads, reservations} }

func countsOfFile(f *File) (key string, a store.Amounts) {
	a[store.Files], a[store.FileBytes], a[store.RecordBytes] = 1, f.Bytes, recordSize+int64(len(f.Filename))
	return f.Key, a
}

// countsOfUpload counts one that is pending for the file that it becomes, too: nothing is missing when it is
// completed.
func countsOfUpload(u *upload) (key string, a store.Amounts) {
	a[store.KeptUploads], a[store.RecordBytes] = 1, recordSize+int64(len(u.Filename))
	if u.Status == uploadPending {
		a[store.OpenUploads], a[store.Files], a[store.FileBytes] = 1, 1, max(u.Bytes, u.Stored+u.Receiving)
		a[store.RecordBytes] += int64(u.Parts)*partSize + recordSize + int64(len(u.Filename))
	}
	return u.Key, a
}

// A reservation counts for a file that is being received.
type reservation struct {
	Key   string `json:"key,omitempty"`
	Bytes int64  `json:"bytes"`
	Until int64  `json:"until"` // Unix time in seconds
}

var reservations = store.Kind[reservation]{Name: "reservations", Prefix: "reservation_",
	Counts: func(r *reservation) (key string, a store.Amounts) {
		a[store.Files], a[store.FileBytes] = 1, r.Bytes
		return r.Key, a
	}}

// reserved is for how long a reservation stays where its replica was killed; one that grows begins anew.
const reserved = 2 * time.Hour

func reservationExpiry(r *store.Record[reservation]) store.Expiry {
	return store.Expiry{Kind: reservations.Name, Tenant: r.Tenant, ID: r.ID, At: r.Value.Until}
}

// A hold is the reservation of one request for a file that is being received.
type hold struct {
	s  *Service
	c  rest.Caller
	on *store.Record[reservation] // nil: nothing yet
}

// reserve makes the reservation one of so many bytes. Nothing is written to the blob store beyond it. A caller without
// bounds needs none.
func (h *hold) reserve(ctx context.Context, bytes int64) error {
	if h.c.Bounds == nil {
		return nil
	}
	next := &store.Record[reservation]{Tenant: h.c.Tenant, ID: reservations.NewID()}
	t := h.s.Store.Begin()
	t.Within(h.c.Bounds)
	if h.on != nil {
		again := *h.on
		next = &again
	}
	next.Value = reservation{Key: h.c.Key, Bytes: bytes, Until: h.s.Now().Add(reserved).Unix()}
	switch {
	case h.on == nil:
		reservations.Create(t, next)
		t.ExpireAt(reservationExpiry(next))
	case h.on.Value.Until == next.Value.Until: // it expires as it was said before, within the same second
		reservations.Update(t, next)
	default:
		reservations.Update(t, next)
		t.Keep(reservationExpiry(h.on))
		t.ExpireAt(reservationExpiry(next))
	}
	if err := t.Commit(ctx); err != nil {
		return err
	}
	h.on = next
	return nil
}

// spend gives what is reserved to the file that a transaction creates.
func (h *hold) spend(t *store.Txn) {
	if h.on != nil {
		reservations.Delete(t, h.on)
		t.Keep(reservationExpiry(h.on))
	}
}

// release gives back the reservation, if nothing was created. If it cannot be given back now, it expires.
func (h *hold) release(ctx context.Context) {
	if h.on == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	t := h.s.Store.Begin()
	h.spend(t)
	if err := t.Commit(ctx); err != nil && !errors.Is(err, store.ErrConflict) {
		h.s.Log.Warn("what was reserved for a file is given back later", zap.Error(err))
	}
}

const releaseTimeout = 10 * time.Second

// expireReservation gives back what a replica reserved that was killed.
func (s *Service) expireReservation(ctx context.Context, e store.Expiry) error {
	r, err := reservations.Get(ctx, s.Store, e.Tenant, e.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && r.Value.Until > e.At {
		return nil
	}
	if err != nil {
		return err
	}
	t := s.Store.Begin()
	reservations.Delete(t, r)
	return t.Commit(ctx)
}

// receiving adds to what an upload receives, or takes away; bounds are nil if it must be taken away. It returns the
// upload as it is then.
func (s *Service) receiving(ctx context.Context, u *store.Record[upload], bytes int64,
	bounds store.Bounds) (*store.Record[upload], error) {
	for {
		if bytes > 0 && bounds == nil {
			return u, nil
		}
		changed := *u
		changed.Value.Receiving += bytes
		t := s.Store.Begin()
		t.Within(bounds)
		uploads.Update(t, &changed)
		err := t.Commit(ctx)
		if err == nil {
			return &changed, nil
		}
		if !errors.Is(err, store.ErrConflict) || ctx.Err() != nil {
			return nil, err
		}
		if u, err = uploads.Get(ctx, s.Store, u.Tenant, u.ID); err != nil {
			return nil, err
		}
		if err := s.takesParts(u); err != nil && bytes > 0 {
			return nil, err
		}
		if u.Value.Status != uploadPending { // nothing is received any more
			return u, nil
		}
	}
}

// alone waits until no other request joins the parts of an upload at this replica: each writes them once more.
func (s *Service) alone(ctx context.Context, id string) (done func(), err error) {
	mine := make(chan struct{})
	for {
		other, there := s.joins.LoadOrStore(id, mine)
		if !there {
			return func() { s.joins.Delete(id); close(mine) }, nil
		}
		select {
		case <-other.(chan struct{}): //nolint:forcetypeassert // nothing else is stored
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
