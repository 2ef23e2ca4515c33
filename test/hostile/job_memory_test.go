package hostile

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/harness"
)

// send sends a request and returns the status and the body of the answer.
func send(g *harness.Gateway, key, method, path, body string) (int, string, error) {
	r, err := http.NewRequest(method, g.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := g.Client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

func must(t *testing.T, g *harness.Gateway, key, method, path, body string) map[string]any {
	t.Helper()
	status, text, err := send(g, key, method, path, body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, text)
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// storing has a gateway store responses.
func storing(t *testing.T, g *harness.Gateway) {
	t.Helper()
	object := harness.Must(t, "", "config", "get", "jobservice", "default", "--data", g.Dir)
	harness.Must(t, object+"\nstored_responses: {}\n", "config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "responses are stored", func() error {
		status, text, err := send(g, g.Key, http.MethodPost, "/v1/conversations", "{}")
		if status != http.StatusOK {
			return fmt.Errorf("%d %s %w", status, text, err)
		}
		return nil
	})
}

// stored has the names and sizes of the documents of stored responses.
func stored(t *testing.T, g *harness.Gateway) (names map[string]int64) {
	t.Helper()
	names = map[string]int64{}
	require.NoError(t, filepath.WalkDir(g.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "/responses/") {
			return nil //nolint:nilerr // what was removed meanwhile is not there
		}
		if info, err := d.Info(); err == nil {
			names[path] = info.Size()
		}
		return nil
	}))
	return names
}

// metric reads a metric of the gateway.
func metric(t *testing.T, g *harness.Gateway, name string) int64 {
	t.Helper()
	answer, err := g.Client.Get(g.Admin + "/metrics")
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^` + name + `(?:\{[^}]*\})? (\S+)$`).FindSubmatch(text)
	require.NotNil(t, found, name)
	n, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(t, err)
	return int64(n)
}

// atOnce sends n requests at the same time and counts their statuses.
func atOnce(n int, send func(i int) int) map[int]int {
	var mu sync.Mutex
	var all sync.WaitGroup
	statuses := map[int]int{}
	for i := range n {
		all.Go(func() {
			status := send(i)
			mu.Lock()
			statuses[status]++
			mu.Unlock()
		})
	}
	all.Wait()
	return statuses
}

// Each read of a conversation of 32 MiB took 70 MB whatever it asked for, and forty of them 1.9 GB. An append of two
// bytes wrote 33 MB.
func TestWhatTenantsStoreIsReadInPieces(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "600MiB") // as a small pod has
	g := harness.Run(t, t.TempDir())
	storing(t, g)
	_, tenant := g.CreateKey(t, "tenant", "web")
	_, other := g.CreateKey(t, "other", "web")
	harness.Eventually(t, "the keys are there", func() error {
		for _, key := range []string{tenant, other} {
			status, text, err := send(g, key, http.MethodPost, "/v1/conversations", "{}")
			if status != http.StatusOK {
				return fmt.Errorf("%d %s %w", status, text, err)
			}
		}
		return nil
	})
	path := "/v1/conversations/" + must(t, g, tenant, http.MethodPost, "/v1/conversations", "{}")["id"].(string)
	item := `{"type":"message","role":"user","content":[{"type":"input_text","text":"` + strings.Repeat("x", 100_000) + `"}]}`
	var id string
	for range 16 {
		made := must(t, g, tenant, http.MethodPost, path+"/items", `{"items":[`+repeated(20, item)+`]}`)
		id = made["first_id"].(string)
	}
	small := must(t, g, other, http.MethodPost, "/v1/conversations", `{"items":[{"role":"user","content":"x"}]}`)

	before := peakOf(t, g.PID())
	for what, ask := range map[string]string{
		"one item": path + "/items/" + id, "a page of one": path + "/items?limit=1",
		"a page of ten":        path + "/items?limit=10",
		"a page after an item": path + "/items?limit=3&order=asc&after=" + id,
	} {
		var beside sync.WaitGroup
		beside.Go(func() {
			for range 20 {
				status, text, err := send(g, other, http.MethodGet, "/v1/conversations/"+small["id"].(string)+"/items", "")
				if status != http.StatusOK {
					t.Errorf("the other tenant gets %d %s %v", status, text, err)
				}
			}
		})
		statuses := atOnce(40, func(int) int {
			status, _, _ := send(g, tenant, http.MethodGet, ask, "")
			return status
		})
		beside.Wait()
		require.Equal(t, map[int]int{200: 40}, statuses, what)
	}
	after := peakOf(t, g.PID())
	figure(t, "peak memory before and after 40 parallel reads of 32 MiB", "%d and %d MB", before>>20, after>>20)
	require.Less(t, after, int64(450<<20))

	had := stored(t, g)
	must(t, g, tenant, http.MethodPost, path+"/items", `{"items":[{"role":"user","content":"ab"}]}`)
	var written int64
	for name, size := range stored(t, g) {
		if _, old := had[name]; !old {
			written += size
		}
	}
	figure(t, "an append of two bytes to 32 MiB writes", "%d KB", written>>10)
	require.Positive(t, written)
	require.Less(t, written, int64(100<<10))

	// All of it is needed to go on with the conversation: it is read by as many as there is memory for.
	statuses := atOnce(16, func(i int) int {
		key, body := tenant, `{"model":"echo/echo","input":"x","store":false,"conversation":"`+filepath.Base(path)+`"}`
		if i%4 == 0 {
			key, body = other, `{"model":"echo/echo","input":"x"}`
		}
		status, _, _ := send(g, key, http.MethodPost, "/v1/responses", body)
		if key == other {
			return -status
		}
		return status
	})
	figure(t, "12 responses to 32 MiB, and 4 small ones of another", "%v", statuses)
	require.Equal(t, 4, statuses[-200], "the other tenant is served: %v", statuses)
	require.Positive(t, statuses[200])
	require.Equal(t, 12, statuses[200]+statuses[429]+statuses[503], "%v", statuses)
	figure(t, "peak memory then", "%d MB", peakOf(t, g.PID())>>20)
	require.Less(t, peakOf(t, g.PID()), int64(800<<20))
	harness.Eventually(t, "all is given back", func() error {
		if n := metric(t, g, "modelgate_jobs_memory_bytes"); n != 0 {
			return fmt.Errorf("%d bytes are held", n)
		}
		return nil
	})
}
