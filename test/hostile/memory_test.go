package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// bomb is a request of some ten kilobytes that becomes as many megabytes.
func bomb(t *testing.T, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, `{"model":"echo/echo","messages":[{"role":"user","content":"`+strings.Repeat("a", size)+
		`"}]}`)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

// TestPoint3MemoryIsBounded sends bodies that grow, and has a provider answer with very long ones, all at once, while
// another key goes on. Six such bodies took 2.2 GB, and eight such answers 1.1 GB.
func TestPoint3MemoryIsBounded(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "800MiB") // as a small pod has
	g := harness.Run(t, t.TempDir())
	long := `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("a", 45<<20) +
		`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	talks := cases.NewProvider(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(long)))
		_, _ = io.WriteString(w, long)
	})
	g.Apply(t, &configv1.Provider{Name: "talks", Vendor: "compatible", Endpoint: talks.URL + "/v1"})
	_, key := g.CreateKey(t, "tenant", "web")
	const small = `{"model":"echo/echo","messages":[{"role":"user","content":"x"}]}`
	harness.Eventually(t, "the key is there", func() error {
		if status, err := ask(g, key, small); status != http.StatusOK {
			return fmt.Errorf("%d, %w", status, err)
		}
		return nil
	})
	packed := bomb(t, 31<<20)
	answers := make(chan string, 14)
	var attacks sync.WaitGroup
	for range 6 {
		attacks.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
				bytes.NewReader(packed))
			if err != nil {
				answers <- err.Error()
				return
			}
			r.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"},
				"Content-Encoding": {"gzip"}}
			answer, err := g.Client.Do(r)
			if err != nil {
				answers <- err.Error()
				return
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			answers <- fmt.Sprint("packed ", answer.StatusCode)
		})
	}
	for range 8 {
		attacks.Go(func() {
			status, err := ask(g, key, `{"model":"talks/m","messages":[{"role":"user","content":"x"}]}`)
			answers <- fmt.Sprint("long ", status, " ", err)
		})
	}
	done := make(chan struct{})
	go func() {
		attacks.Wait()
		close(done)
	}()
	for asked := 0; ; asked++ {
		status, err := ask(g, g.Key, small)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, "the request of another key")
		select {
		case <-done:
			figure(t, "small requests of another key beside", "%d, all answered", asked+1)
		default:
			continue
		}
		break
	}
	close(answers)
	all := map[string]int{}
	for a := range answers {
		all[a]++
	}
	figure(t, fmt.Sprintf("six bodies of %d KB that become 31 MB, eight answers of 45 MB", len(packed)>>10), "%v", all)
	figure(t, "peak memory of the gateway without Envoy", "%d MB", peakOf(t, g.PID())>>20)
	require.Less(t, peakOf(t, g.PID()), int64(900<<20))
}
