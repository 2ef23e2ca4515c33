package hostile

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/test/harness"
)

// A fullStore is a gateway with an etcd of a few megabytes, and a client of that etcd which fills it past the gateway.
type fullStore struct {
	*harness.Gateway
	t       *testing.T
	etcd    *clientv3.Client
	written int
}

const smallQuota = 8 << 20

func runSmall(t *testing.T, dir string) *fullStore {
	g := harness.Run(t, dir, "--etcd-quota", fmt.Sprint(smallQuota))
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(dir, "run", "etcd.sock")},
		Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = etcd.Close() })
	return &fullStore{Gateway: g, t: t, etcd: etcd}
}

// write puts keys of 40 kB until so much of the quota is in use, or, with 1, until etcd refuses.
func (s *fullStore) write(part float64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for {
		if s.written++; s.written%8 == 0 && part < 1 {
			<-time.After(120 * time.Millisecond) // etcd tells what it has committed, ten times a second
		}
		status, err := s.etcd.Status(ctx, s.etcd.Endpoints()[0])
		require.NoError(s.t, err)
		if part < 1 && float64(status.DbSizeInUse) > part*smallQuota {
			return
		}
		_, err = s.etcd.Put(ctx, fmt.Sprint("/filler/", s.written), strings.Repeat("x", 40_000))
		if part == 1 && err != nil {
			require.ErrorIs(s.t, err, rpctypes.ErrNoSpace)
			return
		}
		require.NoError(s.t, err)
	}
}

// overflow writes until etcd is full and stays so: at first the gateway makes room of what is not needed.
func (s *fullStore) overflow() {
	s.t.Helper()
	for range 20 {
		s.write(1)
		if s.staysFull() {
			return
		}
	}
	s.t.Fatal("the gateway makes room again and again")
}

// staysFull reports whether the alarm stands for as long as a gateway on a busy machine takes to look, to compact and
// to defragment, after which it takes the alarm back.
func (s *fullStore) staysFull() bool {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for range 60 {
		<-tick.C
		if alarms, err := s.etcd.AlarmList(s.t.Context()); err == nil && len(alarms.Alarms) == 0 {
			return false
		}
	}
	return true
}

// get returns what the admin address says to anybody.
func (s *fullStore) get(path string) (int, string) {
	s.t.Helper()
	r, err := s.Client.Get(s.Admin + path)
	require.NoError(s.t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(s.t, err)
	return r.StatusCode, string(text)
}

// says waits until /readyz, which stays 200, says something.
func (s *fullStore) says(what string) {
	s.t.Helper()
	harness.Eventually(s.t, what, func() error {
		status, text := s.get("/readyz")
		require.Equal(s.t, 200, status, "no control plane may be taken out of service: %s", text)
		if !strings.Contains(text, what) {
			return fmt.Errorf("readyz says %q", text)
		}
		return nil
	})
}

func (s *fullStore) chats(key string) int {
	s.t.Helper()
	return s.As(key).Do(s.t, http.MethodPost, "/v1/chat/completions",
		`{"model":"echo/echo","messages":[{"role":"user","content":"Hello"}]}`).Status
}

func (s *fullStore) doctor() string {
	s.t.Helper()
	out, _ := harness.Command(s.t, "", "doctor", "--data", s.Dir, "--no-test")
	return out
}

// revokes revokes a key and waits until it does not work any more.
func (s *fullStore) revokes(id, key string) {
	s.t.Helper()
	require.Equal(s.t, 200, s.chats(key))
	began := time.Now()
	harness.Must(s.t, "", "key", "revoke", "--data", s.Dir, id)
	harness.Eventually(s.t, "the key is revoked", func() error {
		if status := s.chats(key); status != 401 {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
	figure(s.t, "a key is revoked while etcd is full", "%d ms", time.Since(began).Milliseconds())
}

// batches creates batches as a tenant does who means harm, until it is refused.
func (s *fullStore) batches() (refused harness.Client, body string, made int) {
	c := s.As(s.Key)
	file := c.Upload(s.t, "batch", harness.ChatLine("a", "echo/echo", "Hello")+"\n")
	var metadata []string
	for i := range 16 {
		metadata = append(metadata, fmt.Sprintf(`"key%d":"%s"`, i, strings.Repeat("m", 500)))
	}
	create := fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{%s}}`, file,
		strings.Join(metadata, ","))
	for made = range 400 {
		a := c.Do(s.t, http.MethodPost, "/v1/batches", create, "Idempotency-Key", fmt.Sprint("fresh-", made))
		if a.Status != 200 {
			require.Equal(s.t, http.StatusInsufficientStorage, a.Status, "%s", a.Body)
			require.NotEmpty(s.t, a.Header.Get("Retry-After"))
			return c, string(a.Body), made
		}
	}
	s.t.Fatal("no batch was refused")
	return c, "", 0
}

func TestPoint1AStoreThatFillsIsAdministeredAndServesAndIsRepaired(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "mg-") // short, so that etcd's socket is in it
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := runSmall(t, dir)
	ids, keys := make([]string, 3), make([]string, 3)
	for i := range ids {
		ids[i], keys[i] = s.CreateKey(t, "", "")
	}
	require.NotContains(t, s.doctor(), "etcd ")

	s.write(0.61)
	s.says("warning: etcd fills: ")
	require.Contains(t, s.doctor(), "of a quota of 8.4 MB")

	tenant, body, made := s.batches()
	require.Contains(t, body, `"store_full"`)
	figure(t, "batches of 16 KB until the reserve is reached", "%d", made)
	s.write(0.75)
	s.says("Tenants cannot create anything")
	a := tenant.Do(t, http.MethodPost, "/v1/files", "--x--\r\n", "Content-Type", "multipart/form-data; boundary=x")
	require.Equal(t, http.StatusInsufficientStorage, a.Status, "%s", a.Body)
	s.CreateKey(t, "", "") // administration goes on

	s.overflow()
	s.says("error: etcd is full (NOSPACE)")
	require.Contains(t, s.doctor(), "etcd is full (NOSPACE)")
	status, err := harness.Command(t, "", "status", "--data", dir)
	require.Error(t, err)
	require.Contains(t, status, "etcd is full (NOSPACE)")
	_, metrics := s.get("/metrics")
	require.Contains(t, metrics, "modelgate_etcd_full 1\n")
	require.Contains(t, metrics, `modelgate_etcd_quota_bytes{member="modelgate"} 8.388608e+06`)
	s.revokes(ids[0], keys[0])

	s.Stop(t)
	began := time.Now()
	s = runSmall(t, dir)
	figure(t, "a start on a full store", "%d ms", time.Since(began).Milliseconds())
	s.says("error: etcd is full (NOSPACE)")
	s.revokes(ids[1], keys[1])
	_, err = harness.Command(t, "", "key", "create", "--data", dir, "--name", "more")
	require.Error(t, err)

	_, err = s.etcd.Delete(t.Context(), "/filler/", clientv3.WithPrefix())
	require.NoError(t, err)
	began = time.Now()
	harness.Eventually(t, "etcd is repaired", func() error {
		_, err := harness.Command(t, "", "key", "create", "--data", dir, "--name", "more")
		return err
	})
	figure(t, "from the deletion until etcd takes changes again", "%d ms", time.Since(began).Milliseconds())
	require.NotContains(t, s.doctor(), "NOSPACE")
	require.Equal(t, 200, s.chats(keys[2]))
}
