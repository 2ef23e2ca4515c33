package bodies

import (
	"bytes"
	"context"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/secret"
)

type bench struct {
	*Store
	dir string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "ledger.db"), zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	root, err := secret.LoadRoot(filepath.Join(t.TempDir(), "root"))
	require.NoError(t, err)
	b := &bench{dir: t.TempDir()}
	bucket, err := blobstore.Open(t.Context(), "file://"+filepath.ToSlash(b.dir))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	b.Store, err = New(bucket, l, root.BodySealer(), prometheus.NewRegistry(), zap.NewNop())
	require.NoError(t, err)
	return b
}

func bodiesOf(id, organization, key string) *ledgerv1.KeptBodies {
	return &ledgerv1.KeptBodies{
		Id: id, Start: timestamppb.Now(), Key: key, Organization: organization, Project: "p", Subject: "key/" + key,
		MaxTotalBytes: 1 << 20, Retention: durationpb.New(time.Hour),
		Request: &ledgerv1.KeptBody{Text: `{"messages":"how tall is the tower"}`, Bytes: 36},
		Answer:  &ledgerv1.KeptBody{Text: `{"content":"it is very tall"}`, Bytes: 29},
	}
}

func (b *bench) keeps(t *testing.T, kept *ledgerv1.KeptBodies) string {
	t.Helper()
	a, err := b.Keep(t.Context(), &ledgerv1.KeepRequest{Bodies: kept})
	require.NoError(t, err)
	return a.GetDropped()
}

// files returns the content of all files below a folder, by path.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found[path], err = os.ReadFile(path)
		}
		return err
	}))
	return found
}

func TestBodiesAreSealedAndRead(t *testing.T) {
	b := newBench(t)
	require.Empty(t, b.keeps(t, bodiesOf("x-1", "acme", "k1")))
	require.Empty(t, b.keeps(t, bodiesOf("x-1", "acme", "k1")), "it may be sent again")
	got, err := b.Read(t.Context(), "x-1")
	require.NoError(t, err)
	require.Equal(t, `{"content":"it is very tall"}`, got.GetAnswer().GetText())

	stored := files(t, b.dir)
	require.Len(t, stored, 1)
	for path, content := range stored {
		opened, err := base64.StdEncoding.DecodeString(string(content))
		require.NoError(t, err)
		for _, text := range []string{"tower", "tall", "acme"} {
			require.False(t, bytes.Contains(content, []byte(text)), text)
			require.False(t, bytes.Contains(opened, []byte(text)), text)
			require.NotContains(t, path[len(b.dir):], text)
		}
		// What is moved to another exchange, or changed, cannot be opened.
		require.Empty(t, b.keeps(t, bodiesOf("x-2", "acme", "k1")))
		found, err := b.ledger.FindBodies(t.Context(), ledger.BodiesQuery{ID: "x-2"}, 1)
		require.NoError(t, err)
		require.NoError(t, b.bucket.WriteAll(t.Context(), found[0].Blob, content, nil))
		_, err = b.Read(t.Context(), "x-2")
		require.ErrorIs(t, err, secret.ErrUnsealable)
	}
	_, err = b.Read(t.Context(), "x-3")
	require.ErrorIs(t, err, ErrNone)
	_, err = b.Read(t.Context(), "")
	require.ErrorIs(t, err, ErrNone)
}

func TestWhatExpiresIsDeletedAndCounted(t *testing.T) {
	b := newBench(t)
	require.Empty(t, b.keeps(t, bodiesOf("x-1", "acme", "k1")))
	longer := bodiesOf("x-2", "acme", "k1")
	longer.Retention = durationpb.New(72 * time.Hour)
	require.Empty(t, b.keeps(t, longer))
	now := time.Now()
	b.now = func() time.Time { return now.Add(2 * time.Hour) }
	_, err := b.Read(t.Context(), "x-1")
	require.ErrorIs(t, err, ErrNone, "it is not shown any more, also before it is deleted")
	require.NoError(t, b.Sweep(t.Context()))
	require.Len(t, files(t, b.dir), 1)
	require.EqualValues(t, 1, testutil.ToFloat64(b.deleted.WithLabelValues(reasonExpired)))
	require.NotEmpty(t, b.keeps(t, bodiesOf("x-3", "acme", "k1")), "it came too late")

	// The note of the other is lost, as with a ledger that was restored from a backup.
	_, err = b.ledger.ForgetBodies(t.Context(), "x-2")
	require.NoError(t, err)
	require.NoError(t, b.sweepStrays(t.Context()))
	require.Len(t, files(t, b.dir), 1)
	b.now = func() time.Time { return now.Add(5 * 24 * time.Hour) }
	require.NoError(t, b.sweepStrays(t.Context()))
	require.Empty(t, files(t, b.dir))
}

func TestBodiesAreErased(t *testing.T) {
	b := newBench(t)
	for id, of := range map[string][2]string{"1": {"acme", "k1"}, "2": {"acme", "k2"}, "3": {"other", "k3"},
		"4": {"other", "k3"}} {
		require.Empty(t, b.keeps(t, bodiesOf(id, of[0], of[1])))
	}
	for _, tc := range []struct {
		query ledger.BodiesQuery
		n     int64
		left  int
	}{
		{ledger.BodiesQuery{ID: "4"}, 1, 3}, {ledger.BodiesQuery{Key: "none"}, 0, 3},
		{ledger.BodiesQuery{Organization: "other", Project: "q"}, 0, 3},
		{ledger.BodiesQuery{Organization: "acme", Project: "p"}, 2, 1}, {ledger.BodiesQuery{Key: "k3"}, 1, 0},
	} {
		n, err := b.Erase(t.Context(), tc.query)
		require.NoError(t, err)
		require.Equal(t, tc.n, n)
		require.Len(t, files(t, b.dir), tc.left)
	}
	_, err := b.Erase(t.Context(), ledger.BodiesQuery{})
	require.Error(t, err, "nobody erases everything by leaving out who it is about")
	require.EqualValues(t, 4, testutil.ToFloat64(b.deleted.WithLabelValues(reasonErased)))
}

func TestATenantHasARoomOfItsOwn(t *testing.T) {
	b := newBench(t)
	small := bodiesOf("1", "acme", "k1")
	small.MaxTotalBytes = 300
	require.Empty(t, b.keeps(t, small))
	small.Id = "2"
	require.Equal(t, droppedTotal, b.keeps(t, small))
	require.Empty(t, b.keeps(t, bodiesOf("3", "acme", "k2")), "others have their own")
	_, err := b.Erase(t.Context(), ledger.BodiesQuery{ID: "1"})
	require.NoError(t, err)
	now := time.Now()
	b.now = func() time.Time { return now.Add(2 * totalsFor) }
	require.Empty(t, b.keeps(t, small))
}

func TestTroublesOfTheStore(t *testing.T) {
	b := newBench(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Keep(gone, &ledgerv1.KeepRequest{Bodies: bodiesOf("1", "acme", "k1")})
	require.Error(t, err)

	// The folder cannot be written: the ext_proc service is to try again, and nothing is noted.
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "bodies"), nil, 0o600))
	_, err = b.Keep(t.Context(), &ledgerv1.KeepRequest{Bodies: bodiesOf("1", "acme", "k1")})
	require.Error(t, err)
	found, err := b.ledger.FindBodies(t.Context(), ledger.BodiesQuery{Key: "k1"}, 1)
	require.NoError(t, err)
	require.Empty(t, found)

	require.NoError(t, os.Remove(filepath.Join(b.dir, "bodies")))

	// A control plane that was killed between the note and the blob: there is nothing to show, and it is erased.
	require.NoError(t, b.ledger.AddBodies(t.Context(), ledger.KeptBodies{ID: "2", Blob: "bodies/none", Key: "k1",
		Expires: time.Now().Add(time.Hour)}))
	_, err = b.Read(t.Context(), "2")
	require.ErrorIs(t, err, ErrNone)
	n, err := b.Erase(t.Context(), ledger.BodiesQuery{Key: "k1"})
	require.NoError(t, err)
	require.EqualValues(t, 1, n)

	none, err := New(nil, b.ledger, b.sealer, prometheus.NewRegistry(), zap.NewNop())
	require.NoError(t, err)
	a, err := none.Keep(t.Context(), &ledgerv1.KeepRequest{Bodies: bodiesOf("1", "acme", "k1")})
	require.NoError(t, err)
	require.Equal(t, droppedNoStore, a.GetDropped())
}
