package backup

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

const root = "fingerprint"

func put(t *testing.T, etcd *clientv3.Client, key, value string, o ...clientv3.OpOption) {
	t.Helper()
	_, err := etcd.Put(t.Context(), key, value, o...)
	require.NoError(t, err)
}

// all returns what etcd holds.
func all(t *testing.T, etcd *clientv3.Client) map[string]string {
	t.Helper()
	r, err := etcd.Get(t.Context(), "", clientv3.WithPrefix())
	require.NoError(t, err)
	held := map[string]string{}
	for _, kv := range r.Kvs {
		held[string(kv.Key)] = string(kv.Value)
	}
	return held
}

// filled returns an etcd with a gateway in it.
func filled(t *testing.T) *clientv3.Client {
	etcd := etcdtest.Start(t)
	put(t, etcd, configstore.RootKey, root)
	for i := range 3*keysAtOnce + 1 {
		put(t, etcd, fmt.Sprintf("/modelgate/v1/keys/%04d", i), strconv.Itoa(i))
	}
	put(t, etcd, "/modelgate/v1/catalogs/large", strings.Repeat("x", 1_400_000))
	put(t, etcd, "/modelgate/jobs/v1/binary", "\x00\xff\n\"")
	put(t, etcd, "/modelgate/empty", "")
	return etcd
}

func openLedger(t *testing.T, dsn string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), dsn, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func sqlite(t *testing.T) string {
	return "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "ledger.db"))
}

// spend has the ledger hold n exchanges that cost something, and an entry of the audit log.
func spend(t *testing.T, l *ledger.Ledger, n int) {
	t.Helper()
	now := time.Now()
	var records []*ledgerv1.Record
	for i := range n {
		records = append(records, &ledgerv1.Record{Id: fmt.Sprint("exchange-", i), RequestId: fmt.Sprint("req_", i),
			Start: timestamppb.New(now), End: timestamppb.New(now),
			Key: "key_1", Organization: "acme", Model: "gpt \u2028 'quoted'", Outcome: "finished", Status: 200, InputTokens: 10,
			CostNanoUsd: 900_719_925_474_099, Priced: true})
	}
	require.NoError(t, l.Record(t.Context(), records))
	require.NoError(t, l.AppendAudit(t.Context(),
		[]adminapi.AuditEntry{{ID: "01H", At: now, Actor: "somebody", Action: "apply", Diff: "-a\n+b"}}))
}

// content returns all that a ledger holds, as text.
type content struct{ lines []string }

func (c *content) Table(name string, columns []string) error {
	c.lines = append(c.lines, name+fmt.Sprint(columns))
	return nil
}

func (c *content) Row(values []any) error {
	c.lines = append(c.lines, fmt.Sprintf("%#v", values))
	return nil
}

func contentOf(t *testing.T, l *ledger.Ledger) []string {
	t.Helper()
	var c content
	require.NoError(t, l.Dump(t.Context(), &c))
	return c.lines
}

func save(t *testing.T, s Source) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup")
	_, _, err := Save(t.Context(), path, s)
	require.NoError(t, err)
	return path
}

func TestWhatWasSavedIsRestored(t *testing.T) {
	databases := map[string]func(*testing.T) string{"sqlite": sqlite,
		"postgres": func(t *testing.T) string { return pgtest.Start(t) }}
	for from, source := range databases {
		for to, target := range databases {
			t.Run(from+" to "+to, func(t *testing.T) {
				etcd, book := filled(t), openLedger(t, source(t))
				spend(t, book, 1203)
				saved := all(t, etcd)
				lease, err := etcd.Grant(t.Context(), 60)
				require.NoError(t, err)
				put(t, etcd, "/modelgate/jobs/v1/claims/batch/1", "held", clientv3.WithLease(lease.ID))
				put(t, etcd, "/of another/program", "x")
				put(t, etcd, configstore.HistoryKey, "of this etcd")
				put(t, etcd, configstore.AuditHeadKey, "{}")
				require.NoError(t, book.AppendVersions(t.Context(), []adminapi.Version{{
					ID: "1", Epoch: "of this etcd",
					Revision: 9, At: time.Now(), Action: adminapi.Created,
					Kind: "Provider", Name: "p", Document: []byte("{}"), Created: true}}))
				path := save(t, Source{Etcd: etcd, Ledger: book, By: "v1"})
				info, err := os.Stat(path)
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

				empty, other := etcdtest.Start(t), openLedger(t, target(t))
				h, counts, err := Restore(t.Context(), path, Target{Etcd: empty, Ledger: other, Root: root})
				require.NoError(t, err)
				require.Equal(t, "v1", h.By)
				require.EqualValues(t, len(saved)+2, counts.Keys)
				require.Equal(t, saved, all(t, empty),
					"all but what counts the history, the head of the audit log, and no mark of the restoring is left")
				require.ElementsMatch(t, contentOf(t, book), contentOf(t, other))

				// Whoever follows what is spent sees that this is another database, and is told everything.
				before, err := book.Spent(t.Context(), "")
				require.NoError(t, err)
				after, err := other.Spent(t.Context(), before.GetCursor())
				require.NoError(t, err)
				require.Len(t, after.GetSpent(), len(before.GetSpent()))
				require.NotEmpty(t, after.GetSpent())
			})
		}
	}
}

func TestKeysAreOfOneRevision(t *testing.T) {
	etcd := filled(t)
	first, last := "/modelgate/a", "/modelgate/zzz"
	ctx, stop := context.WithCancel(t.Context())
	writing := make(chan struct{})
	written := make(chan struct{}, 1)
	go func() {
		defer close(writing)
		for i := 0; ctx.Err() == nil; i++ {
			value := strconv.Itoa(i)
			if _, err := etcd.Txn(ctx).Then(clientv3.OpPut(first, value), clientv3.OpPut(last, value)).Commit(); err == nil {
				select {
				case written <- struct{}{}:
				default:
				}
			}
		}
	}()
	<-written
	for range 10 {
		empty := etcdtest.Start(t)
		path := save(t, Source{Etcd: etcd})
		_, _, err := Restore(t.Context(), path, Target{Etcd: empty, Root: root})
		require.NoError(t, err)
		held := all(t, empty)
		require.Equal(t, held[first], held[last])
		<-written // it is not the same each time
	}
	stop()
	<-writing
}

func TestWhatMustNotBeRestoredIsRefusedAndChangesNothing(t *testing.T) {
	etcd, book := filled(t), openLedger(t, sqlite(t))
	spend(t, book, 10)
	path := save(t, Source{Etcd: etcd, Ledger: book})
	alone := save(t, Source{Etcd: etcd})
	full := openLedger(t, sqlite(t))
	spend(t, full, 1)
	for name, tc := range map[string]struct {
		path   string
		target func(etcd *clientv3.Client, empty *ledger.Ledger) Target
		held   string // in etcd before
		want   error
	}{
		"into an etcd with a gateway": {path,
			func(e *clientv3.Client, l *ledger.Ledger) Target { return Target{Etcd: e, Ledger: l, Root: root} },
			"/modelgate/root", ErrNotEmpty},
		"into an etcd with a part of another backup": {path,
			func(e *clientv3.Client, l *ledger.Ledger) Target { return Target{Etcd: e, Ledger: l, Root: root} },
			configstore.RestoringKey, ErrNotEmpty},
		"under another root secret": {path,
			func(e *clientv3.Client, l *ledger.Ledger) Target { return Target{Etcd: e, Ledger: l, Root: "other"} }, "",
			ErrOtherRoot},
		"into a ledger that is not empty": {path,
			func(e *clientv3.Client, _ *ledger.Ledger) Target { return Target{Etcd: e, Ledger: full, Root: root} }, "",
			ledger.ErrNotEmpty},
		"with its ledger forgotten": {path,
			func(e *clientv3.Client, _ *ledger.Ledger) Target { return Target{Etcd: e, Root: root} }, "", ErrLedger},
		"with a ledger that it has not": {alone,
			func(e *clientv3.Client, l *ledger.Ledger) Target { return Target{Etcd: e, Ledger: l, Root: root} }, "",
			ErrNoLedger},
	} {
		t.Run(name, func(t *testing.T) {
			into, empty := etcdtest.Start(t), openLedger(t, sqlite(t))
			if tc.held != "" {
				put(t, into, tc.held, "x")
			}
			held, spent := all(t, into), contentOf(t, empty)
			_, _, err := Restore(t.Context(), tc.path, tc.target(into, empty))
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, held, all(t, into))
			require.Equal(t, spent, contentOf(t, empty))
		})
	}
	t.Run("while control planes tell each other who is connected", func(t *testing.T) {
		into, empty := etcdtest.Start(t), openLedger(t, sqlite(t))
		put(t, into, configstore.Replicas+"a", "[]")
		put(t, into, configstore.Taken+"a", "1")
		put(t, into, configstore.Untaken+"a", "[]")
		put(t, into, configstore.Turns+"auditsinks/1", "")
		put(t, into, configstore.AuditHeadKey, "{}") // somebody has tried to sign in
		put(t, into, configstore.AlertsLeader+"/a", "")
		_, _, err := Restore(t.Context(), path, Target{Etcd: into, Ledger: empty, Root: root})
		require.NoError(t, err)
		require.NotContains(t, all(t, into), configstore.AuditHeadKey)
	})
	t.Run("the ledger left out on purpose", func(t *testing.T) {
		into := etcdtest.Start(t)
		_, _, err := Restore(t.Context(), path, Target{Etcd: into, WithoutLedger: true, Root: root})
		require.NoError(t, err)
		require.Equal(t, all(t, etcd), all(t, into))
	})
}

func TestADamagedFileIsRefusedAndChangesNothing(t *testing.T) {
	book := openLedger(t, sqlite(t))
	spend(t, book, 3)
	small := etcdtest.Start(t)
	put(t, small, configstore.RootKey, root)
	put(t, small, "/modelgate/v1/keys/a", "b")
	whole, err := os.ReadFile(save(t, Source{Etcd: small, Ledger: book}))
	require.NoError(t, err)
	into, empty := etcdtest.Start(t), openLedger(t, sqlite(t))
	before := contentOf(t, empty)
	try := func(content []byte) error {
		path := filepath.Join(t.TempDir(), "damaged")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_, _, err := Restore(t.Context(), path, Target{Etcd: into, Ledger: empty, Root: root})
		return err
	}
	for length := range whole {
		require.ErrorIs(t, try(whole[:length]), ErrDamaged, "the first %d bytes", length)
	}
	for i, text := 0, unzip(t, whole); i < len(text); i += 3 {
		changed := bytes.Clone(text)
		changed[i] ^= 0x02
		require.Error(t, try(zip(t, changed)), "byte %d", i) // it may say that it is of a later format
	}
	require.ErrorIs(t, try(append(append([]byte(nil), whole...), "more"...)), ErrDamaged)
	require.ErrorIs(t, try([]byte("hello")), ErrDamaged)
	require.Empty(t, all(t, into))
	require.Equal(t, before, contentOf(t, empty))
}

func unzip(t *testing.T, b []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return text
}

func zip(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestARestoreThatFailedInTheMidstCanBeRunAgain(t *testing.T) {
	etcd := filled(t)
	path := save(t, Source{Etcd: etcd})
	h, _, err := func() (Header, Counts, error) {
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		return verify(f)
	}()
	require.NoError(t, err)
	into := etcdtest.Start(t)
	require.NoError(t, Target{Etcd: into}.begin(t.Context(), h))
	put(t, into, "/modelgate/v1/keys/0001", "1")

	store := configstore.New(into, nil, zap.NewNop())
	require.ErrorIs(t, store.Claim(t.Context(), root), configstore.ErrRestoring, "no control plane works on a half of it")
	_, _, err = Save(t.Context(), filepath.Join(t.TempDir(), "b"), Source{Etcd: into})
	require.ErrorIs(t, err, configstore.ErrRestoring, "nor is a half saved")

	_, _, err = Restore(t.Context(), path, Target{Etcd: into, Root: root})
	require.NoError(t, err)
	require.Equal(t, all(t, etcd), all(t, into))
	require.NoError(t, store.Claim(t.Context(), root))
}

func TestABackupThatFailsLeavesTheOneBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, os.WriteFile(path, []byte("the one before"), 0o600))
	_, _, err := Save(t.Context(), path, Source{Etcd: etcdtest.Start(t)})
	require.ErrorIs(t, err, ErrNothing)

	etcd := filled(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = Save(ctx, path, Source{Etcd: etcd})
	require.ErrorIs(t, err, context.Canceled)
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "the one before", string(kept))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestARevisionThatEtcdForgetsMeanwhileIsAnError(t *testing.T) {
	etcd := filled(t)
	_, revision, err := Source{Etcd: etcd}.root(t.Context())
	require.NoError(t, err)
	put(t, etcd, "/modelgate/later", "x")
	_, err = etcd.Compact(t.Context(), revision+1)
	require.NoError(t, err)
	w, err := newWriter(&strings.Builder{}, Header{})
	require.NoError(t, err)
	require.ErrorIs(t, Source{Etcd: etcd}.keys(t.Context(), revision, w), ErrCompacted)
}
