// Package bodies stores the requests and answers that operators want kept: sealed, in the blob store, with a note of
// each in the ledger. A blob is written after its note and deleted before it, so that whatever exists can be found and
// erased. The name of a blob begins with the day on which it expires, so that it is deleted even if its note is lost.
//
// What arrives is redacted already. Nothing here logs it, and only the admin API, which writes who looked into the
// audit log, may call Read.
package bodies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"gocloud.dev/blob"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/timing"
)

const (
	folder = "bodies/"

	// maxSize bounds what one exchange may need, and totalsFor is how long a total is believed.
	maxSize   = 4 << 20
	totalsFor = 10 * time.Second

	sweepEvery = time.Minute
	strayEvery = time.Hour
	atOnce     = 200
)

// Reasons why bodies are not stored.
const (
	droppedTotal   = "total"
	droppedNoStore = "no_store"
	droppedFull    = "store_full"
)

// ErrNone is the error of Read if no bodies of an exchange are stored.
var ErrNone = errors.New("no bodies of the exchange are kept")

// A Store stores bodies. It is safe for concurrent use, and any number of control planes may have one on the same
// ledger and bucket. It implements [ledgerv1.BodiesServer].
type Store struct {
	ledgerv1.UnimplementedBodiesServer

	bucket  *blob.Bucket // nil: nothing is stored
	ledger  *ledger.Ledger
	sealer  *secret.Sealer
	log     *zap.Logger
	now     func() time.Time
	deleted *prometheus.CounterVec

	mu     sync.Mutex // guards totals
	totals map[string]total
}

// total is the size of the bodies that are kept under a subject's setting.
type total struct {
	bytes int64
	read  time.Time
}

// New returns a store. Without a bucket it stores nothing, and says so.
func New(bucket *blob.Bucket, l *ledger.Ledger, s *secret.Sealer, r prometheus.Registerer,
	log *zap.Logger) (*Store, error) {
	b := &Store{bucket: bucket, ledger: l, sealer: s, log: log, now: time.Now, totals: map[string]total{},
		deleted: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_bodies_deleted_total",
			Help: "Exchanges whose kept bodies were deleted, by reason: expired or erased."}, []string{"reason"})}
	for _, reason := range []string{reasonExpired, reasonErased} {
		b.deleted.WithLabelValues(reason)
	}
	if err := r.Register(b.deleted); err != nil {
		return nil, fmt.Errorf("registering the metrics of kept bodies: %w", err)
	}
	return b, nil
}

// Keep implements [ledgerv1.BodiesServer].
func (s *Store) Keep(ctx context.Context, r *ledgerv1.KeepRequest) (*ledgerv1.KeepAnswer, error) {
	if s.bucket == nil {
		return &ledgerv1.KeepAnswer{Dropped: droppedNoStore}, nil
	}
	b := r.GetBodies()
	dropped, err := s.keep(ctx, b)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("bodies cannot be stored now; the ext_proc service tries again", zap.String("exchange", b.GetId()),
				zap.Error(err))
		}
		return nil, status.Error(codes.Unavailable, "bodies cannot be stored")
	}
	return &ledgerv1.KeepAnswer{Dropped: dropped}, nil
}

func (s *Store) keep(ctx context.Context, b *ledgerv1.KeptBodies) (dropped string, err error) {
	plain, err := proto.Marshal(b)
	if err != nil {
		return "", err
	}
	sealed := s.sealer.Seal("Bodies", b.GetId(), "", secret.New(string(plain)))
	size := int64(len(sealed))
	expires := b.GetStart().AsTime().Add(b.GetRetention().AsDuration())
	if size > maxSize || !expires.After(s.now()) {
		return droppedTotal, nil
	}
	fits, err := s.fits(ctx, b.GetSubject(), size, b.GetMaxTotalBytes())
	if err != nil || !fits {
		return droppedTotal, err
	}
	note := ledger.KeptBodies{
		ID: b.GetId(), Blob: blobOf(b.GetId(), expires), Subject: b.GetSubject(), Key: b.GetKey(),
		Organization: b.GetOrganization(), Project: b.GetProject(), Bytes: size, Expires: expires,
	}
	if err := s.ledger.AddBodies(ctx, note); err != nil {
		return "", err
	}
	if err = s.bucket.WriteAll(ctx, note.Blob, []byte(sealed), nil); err == nil {
		return "", nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, undone := s.ledger.ForgetBodies(undo, note.ID) // else the note expires
	if blobstore.IsFull(err) {
		s.log.Warn("bodies are not kept: the blob store is full", zap.Error(err))
		return droppedFull, nil
	}
	return "", errors.Join(err, undone)
}

// blobOf names the blob of an exchange. The id comes from the ext_proc service, or from the job service's line.
func blobOf(id string, expires time.Time) string {
	sum := sha256.Sum256([]byte(id))
	return folder + expires.UTC().Format(time.DateOnly) + "/" + hex.EncodeToString(sum[:])
}

// fits reports whether a subject may keep so many bytes more, and counts them if it may.
func (s *Store) fits(ctx context.Context, subject string, size, most int64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, known := s.totals[subject]
	if now := s.now(); !known || now.Sub(t.read) > totalsFor {
		n, err := s.ledger.BodyBytes(ctx, subject)
		if err != nil {
			return false, err
		}
		t = total{bytes: n, read: now}
	}
	if len(s.totals) > 10_000 {
		clear(s.totals)
	}
	if t.bytes+size > most {
		s.totals[subject] = t
		return false, nil
	}
	t.bytes += size
	s.totals[subject] = t
	return true, nil
}

// Read returns the bodies of an exchange. The error is ErrNone if there are none.
func (s *Store) Read(ctx context.Context, id string) (*ledgerv1.KeptBodies, error) {
	if s.bucket == nil {
		return nil, ErrNone
	}
	found, err := s.ledger.FindBodies(ctx, ledger.BodiesQuery{ID: id}, 1)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0 || found[0].ID != id || !found[0].Expires.After(s.now()):
		return nil, ErrNone
	}
	sealed, err := s.bucket.ReadAll(ctx, found[0].Blob)
	if blobstore.IsMissing(err) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("reading kept bodies: %w", err)
	}
	plain, err := s.sealer.Open("Bodies", id, "", string(sealed))
	if err != nil {
		return nil, fmt.Errorf("opening kept bodies: %w", err)
	}
	b := &ledgerv1.KeptBodies{}
	if err := proto.Unmarshal([]byte(plain.Reveal()), b); err != nil {
		return nil, fmt.Errorf("reading kept bodies: %w", err)
	}
	return b, nil
}

const (
	reasonExpired = "expired"
	reasonErased  = "erased"
)

// Erase deletes all bodies that a query selects, and returns of how many exchanges.
func (s *Store) Erase(ctx context.Context, q ledger.BodiesQuery) (int64, error) {
	if q == (ledger.BodiesQuery{}) {
		return 0, errors.New("deleting kept bodies: it is not said which")
	}
	return s.delete(ctx, q, reasonErased)
}

func (s *Store) delete(ctx context.Context, q ledger.BodiesQuery, reason string) (all int64, err error) {
	if s.bucket == nil {
		return 0, nil
	}
	for {
		found, err := s.ledger.FindBodies(ctx, q, atOnce)
		if err != nil || len(found) == 0 {
			return all, err
		}
		ids := make([]string, len(found))
		for i, b := range found {
			if err := s.bucket.Delete(ctx, b.Blob); err != nil && !blobstore.IsMissing(err) {
				return all, fmt.Errorf("deleting kept bodies: %w", err)
			}
			ids[i] = b.ID
		}
		n, err := s.ledger.ForgetBodies(ctx, ids...)
		all += n
		s.deleted.WithLabelValues(reason).Add(float64(n))
		if err != nil {
			return all, err
		}
	}
}

// Run deletes what has expired until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	if s.bucket == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	var strays time.Time
	return timing.Every(ctx, sweepEvery, func() {
		err := s.Sweep(ctx)
		if now := s.now(); err == nil && now.Sub(strays) >= strayEvery {
			strays = now
			err = s.sweepStrays(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("expired bodies cannot be deleted now", zap.Error(err))
		}
	})
}

// Sweep deletes what has expired.
func (s *Store) Sweep(ctx context.Context) error {
	_, err := s.delete(ctx, ledger.BodiesQuery{Expired: s.now()}, reasonExpired)
	return err
}

// sweepStrays deletes blobs of earlier days, whose notes are gone. Lists are sorted, and so begin with them.
func (s *Store) sweepStrays(ctx context.Context) error {
	today := folder + s.now().UTC().Format(time.DateOnly)
	for blobs := s.bucket.List(&blob.ListOptions{Prefix: folder}); ; {
		b, err := blobs.Next(ctx)
		if errors.Is(err, io.EOF) || err == nil && b.Key >= today {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing kept bodies: %w", err)
		}
		if err := s.bucket.Delete(ctx, b.Key); err != nil && !blobstore.IsMissing(err) {
			return fmt.Errorf("deleting kept bodies: %w", err)
		}
		s.deleted.WithLabelValues(reasonExpired).Inc()
	}
}
