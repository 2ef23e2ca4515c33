package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// severalProcesses are the processes of one ext_proc service, which several Envoys ask.
type severalProcesses struct {
	*split
	at        []string // where each listens
	processes []*harness.Process
}

// startReplicas starts a service of n processes and as many Envoys as given, on one port.
func startReplicas(t *testing.T, n, envoys int) *severalProcesses {
	s := newSplit(t)
	s.listen = [2]string{s.socket("xds0"), s.socket("xds1")}
	s.client = []string{"--xds-address", s.listen[0]}
	s.planes[0] = s.startPlane(0)
	s.planes[1] = s.planes[0]
	s.configure()
	r := &severalProcesses{split: s, processes: make([]*harness.Process, n)}
	for range n {
		r.at = append(r.at, fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t)))
	}
	for i := range n {
		r.start(i)
	}
	for i := range envoys {
		text := harness.Must(t, "", append([]string{"envoy", "bootstrap", "--extproc", strings.Join(r.at, ","),
			"--admin-socket", filepath.Join(s.Dir, fmt.Sprintf("admin%d.sock", i))}, s.client...)...)
		path := filepath.Join(s.Dir, fmt.Sprintf("envoy%d.yaml", i))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		cmd := exec.Command(testenv.Envoy(t), "-c", path, "--disable-hot-restart", "--concurrency", "1",
			"--log-level", "warning")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		harness.Start(t, cmd)
	}
	s.awaitService()
	return r
}

// start starts a process and waits until it can serve.
func (r *severalProcesses) start(i int) {
	args := append([]string{"extproc", "--listen", r.at[i], "--admin", "127.0.0.1:0", "--shutdown-delay", "3s",
		"--peers", strings.Join(r.at, ","), "--peer-address", r.at[i],
		"--spool", filepath.Join(r.Dir, fmt.Sprintf("spool%d", i))}, r.client...)
	r.processes[i] = harness.Launch(r.t, nil, args...)
	r.processes[i].WaitFor(r.t, "configuration received")
}

// TestProcessesOfOneServiceAreReplacedUnderLoad replaces ten ext_proc processes behind two Envoys, one by one. Each
// request meets a provider that fails, and then one that does not. Its second attempt reaches any of the processes.
func TestProcessesOfOneServiceAreReplacedUnderLoad(t *testing.T) {
	r := startReplicas(t, 10, 2)
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(down.Close)
	harness.Must(t, harness.Documents(t,
		&configv1.Provider{Name: "down", Vendor: "compatible", Endpoint: down.URL + "/v1"},
		&configv1.Model{Name: "both", Targets: []*configv1.Target{{Provider: "down", Model: "x"},
			{Provider: "echo", Model: "echo", Priority: 1}}},
	), append([]string{"config", "apply", "-f", "-"}, r.split.at(0)...)...)
	for range 2 * len(r.at) { // each Envoy and each process must have it
		harness.Eventually(t, "the new model", func() error { return r.has("both") })
	}
	begun := time.Now()
	var asked, again atomic.Int64
	var failed sync.Map
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			tick := time.NewTicker(40 * time.Millisecond) // 200 a second, of all
			defer tick.Stop()
			for ctx.Err() == nil {
				asked.Add(1)
				response, err := r.ask("both")
				if err != nil || response.StatusCode != http.StatusOK {
					failed.Store(fmt.Sprint(response, err), true)
				} else if response.Header.Get("X-Modelgate-Attempts") == "2" {
					again.Add(1)
				}
				<-tick.C
			}
		})
	}
	for i := range r.processes {
		r.processes[i].Stop(t)
		r.start(i)
	}
	stop()
	clients.Wait()
	failed.Range(func(what, _ any) bool {
		t.Error(what)
		return true
	})
	t.Logf("%d requests", asked.Load())
	require.Equal(t, asked.Load(), again.Load(), "each needed the second provider")
	harness.Eventually(t, "every request is in the ledger once", func() error {
		if got := r.ledgerUsage(t, begun)["both"].requests; got != asked.Load() {
			return fmt.Errorf("%d of %d", got, asked.Load())
		}
		return nil
	})
	_, body := r.adminGet(t, "/admin/v1/requests?limit=20&model=both")
	var page adminapi.Page[adminapi.Exchange]
	require.NoError(t, json.Unmarshal([]byte(body), &page), body)
	require.Len(t, page.Items, 20)
	for _, e := range page.Items {
		_, body := r.adminGet(t, "/admin/v1/requests/"+e.ID)
		require.NoError(t, json.Unmarshal([]byte(body), &e), body)
		require.Len(t, e.AttemptList, 2)
		require.Equal(t, http.StatusInternalServerError, e.AttemptList[0].Status,
			"each process knows how an attempt ended that Envoy has reported to another: %+v", e.AttemptList)
	}
}

func (r *severalProcesses) ask(model string) (*http.Response, error) {
	body := `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`
	q, err := http.NewRequest(http.MethodPost, r.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Authorization", "Bearer "+r.Key)
	response, err := r.Client.Do(q)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 4096)
	n, _ := response.Body.Read(text)
	response.Status += " " + string(slices.Clone(text[:n]))
	return response, response.Body.Close()
}
