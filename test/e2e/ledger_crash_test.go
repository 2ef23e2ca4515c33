package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/pgtest"
	"github.com/modelgate/modelgate/test/harness"
)

// TestLedgerSurvivesEveryKill kills each process in turn while requests are answered. Whatever a client got whole is
// in the ledger, once.
func TestLedgerSurvivesEveryKill(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		testLedgerSurvives(t, newSplit(t))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		dsn := pgtest.Start(t)
		s := newSplit(t)
		s.ledger = dsn
		testLedgerSurvives(t, s)
	})
}

func testLedgerSurvives(t *testing.T, s *split) {
	s.listen = [2]string{s.socket("xds0"), s.socket("xds1")}
	s.client = []string{"--xds-address", s.listen[0]}
	s.spool = filepath.Join(s.Dir, "spool")
	s.start()

	var answered answers
	var workers sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		workers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					answered.ask(s.gateway)
				}
			}
		})
	}
	kills := []func(){
		func() { s.extproc.Kill(); s.startExtProc() },
		func() { s.planes[0].Kill(); s.planes[0] = s.startPlane(0) },
		func() { s.envoy.Kill(); s.startEnvoy() },
		func() { s.planes[1].Kill(); s.planes[1] = s.startPlane(1) },
	}
	for range 2 {
		for _, kill := range kills {
			before := answered.count.Load()
			harness.Eventually(t, "answers", func() error {
				if answered.count.Load() < before+50 {
					return errStill
				}
				return nil
			})
			kill()
		}
	}
	close(stop)
	workers.Wait()

	harness.Eventually(t, "the ledger has every answer once", func() error {
		times, err := s.charged()
		if err != nil {
			return err
		}
		missing := 0
		answered.requests.Range(func(id, _ any) bool {
			if times[id.(string)] == 0 {
				missing++
			}
			return true
		})
		for id, n := range times {
			if n > 1 {
				t.Fatalf("request %s is charged %d times", id, n)
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d of %d answers are not charged", missing, answered.count.Load())
		}
		return nil
	})
}

// answers are the requests that clients got whole answers to.
type answers struct {
	count    atomic.Int64
	requests sync.Map // x-request-id
}

func (a *answers) ask(g *gateway) {
	r, err := http.NewRequest(http.MethodPost, g.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"echo/echo","stream":true,"messages":[{"role":"user","content":"one two three"}]}`))
	if err != nil {
		return
	}
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", "application/json")
	response, err := g.Client.Do(r)
	if err != nil {
		return
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode == http.StatusOK && strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		a.requests.Store(response.Header.Get("x-request-id"), true)
		a.count.Add(1)
	}
}

// charged returns how often each finished request is in the ledger.
func (s *split) charged() (map[string]int, error) {
	times := map[string]int{}
	for after := ""; ; {
		status, body := s.adminGetAt(0, "/admin/v1/requests?outcome=finished&limit=1000&after="+url.QueryEscape(after))
		if status != http.StatusOK {
			return nil, fmt.Errorf("status %d: %s", status, body)
		}
		var page struct {
			Items []struct {
				RequestID string `json:"request_id"`
			} `json:"items"`
			Next string `json:"next"`
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			return nil, err
		}
		for _, e := range page.Items {
			times[e.RequestID]++
		}
		if after = page.Next; after == "" {
			return times, nil
		}
	}
}

// adminGetAt reads from the admin address of a control plane, which may have another since it was restarted.
func (s *split) adminGetAt(plane int, path string) (int, string) {
	s.Admin = adminURL(s.t, s.planes[plane])
	t, ok := s.t.(*testing.T)
	require.True(s.t, ok)
	return s.adminGet(t, path)
}
