package hostile

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// repeated is what item gives for 0 up to n, with commas.
func repeated(n int, item string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(item, "#", strconv.Itoa(i)))
	}
	return b.String()
}

// chain is a schema of n definitions of which each refers to the next.
func chain(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d1"}},"$defs":{"d0":{"type":"string"}`)
	for i := range n {
		fmt.Fprintf(&b, `,"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"}}}`, n-i, n-i+1)
	}
	return b.String() + `}}`
}

// ask sends a chat completion with a key, and returns the status of the answer.
func ask(g *harness.Gateway, key, body string) (int, error) {
	r, err := http.NewRequest(http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := g.Client.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// Such requests took 140 seconds of CPU and stalled everybody, or got 503 after ten seconds, or took 942 MB.
func TestPoint3WorkOnARequestIsBounded(t *testing.T) {
	g := harness.Run(t, t.TempDir())
	g.Apply(t, &configv1.Provider{Name: "claude", Vendor: "anthropic", Endpoint: fmt.Sprintf("http://127.0.0.1:%d",
		harness.FreePort(t)), Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "sk-x"}}})
	with := func(member string) string {
		return `{"model":"claude/claude-sonnet-4-5","messages":[{"role":"user","content":"x"}],` + member + `}`
	}
	tool := func(parameters string) string {
		return with(`"tools":[{"type":"function","function":{"name":"t","strict":true,"parameters":` + parameters + `}}]`)
	}
	format := func(schema string) string {
		return with(`"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":` + schema +
			`}}`)
	}
	attacks := []struct {
		body    string
		refused bool // at once; else the vendor, which is not there, is asked
	}{
		{format(chain(15_000)), true},
		{format(chain(15_000)), true},
		{format(chain(9_000)), false},
		{tool(strings.Repeat(`{"type":"object","properties":{"a":`, 4900) + `{}` + strings.Repeat(`}}`, 4900)), true},
		{tool(`{"type":"object","properties":{` + repeated(60_000, `"p#":{}`) + `},"required":[` +
			repeated(120_000, `"p#"`) + `]}`), false},
		{with(`"m":{` + repeated(2_700_000, `"#":1`) + `}`), true},
	}
	_, key := g.CreateKey(t, "tenant", "web")
	harness.Eventually(t, "the key and the provider are there", func() error {
		if status, err := ask(g, key, with(`"n":1`)); err != nil || status < 500 {
			return fmt.Errorf("%d, %w", status, err)
		}
		return nil
	})
	before := usedBy(t, g.PID())
	done := make(chan struct{})
	var waits []time.Duration
	var all sync.WaitGroup
	all.Go(func() {
		for {
			begun := time.Now()
			status, err := ask(g, g.Key, `{"model":"echo/echo","messages":[{"role":"user","content":"x"}]}`)
			if waits = append(waits, time.Since(begun)); err != nil || status != http.StatusOK {
				t.Errorf("a small request: %d, %v", status, err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	stop := sync.OnceFunc(func() {
		close(done)
		all.Wait()
	})
	defer stop()
	for i, a := range attacks {
		begun := time.Now()
		status, err := ask(g, key, a.body)
		require.NoError(t, err)
		if a.refused {
			require.Equal(t, http.StatusBadRequest, status, "attack %d", i)
		} else {
			require.GreaterOrEqual(t, status, 500, "attack %d: the vendor is not there", i)
		}
		t.Logf("attack %d of %d bytes: %d after %v", i, len(a.body), status, time.Since(begun))
	}
	stop()
	cpu := usedBy(t, g.PID()) - before
	slices.Sort(waits)
	figure(t, "CPU of six attacks and the small requests beside", "%v, %d small requests", cpu.Round(time.Millisecond),
		len(waits))
	figure(t, "small requests beside, 99 of 100 within", "%v", waits[len(waits)*99/100].Round(time.Millisecond))
	figure(t, "peak memory", "%d MB", peakOf(t, g.PID())>>20)
	require.Less(t, peakOf(t, g.PID()), int64(900<<20))
}

// usedBy returns the CPU time of a process so far.
func usedBy(t *testing.T, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// peakOf returns the most memory that a process has had, in bytes.
func peakOf(t *testing.T, pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			require.NoError(t, err)
			return kilobytes << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
