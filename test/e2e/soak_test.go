package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// soakPace is how often each gateway is asked something.
const soakPace = 300 * time.Millisecond

// A soaked is a gateway whose ext_proc service is a process of its own, with a vendor.
type soaked struct {
	*split
	vendor *meteredVendor
	begun  time.Time
	clean  *gateway // a client whose connections are not reset

	asked    map[string]int64
	outcomes map[string]int
	warm     grown
	last     grown
}

// grown is what an ext_proc service has when all is quiet.
type grown struct {
	memory     int64
	files      int
	goroutines float64
}

// outcomes are what comes of each kind of request.
var outcomes = map[string]string{
	"whole": "<nil>", "left": "<nil>", "cut": "<nil>", "second": "200 true <nil>", "large": "200 true <nil>",
	"half a body": "left: true", "unknown": "400 <nil>", "no JSON": "400 <nil>", "no key": "401 <nil>",
	"replaced": "true <nil>",
}

// TestSoak has clients that leave, providers that cut, bodies that are large or break off, and services that are
// replaced while streams are open. Every answer is as it should be, and each exchange is charged once.
func TestSoak(t *testing.T) {
	total := time.Duration(testenv.Size(0, 60)) * time.Second
	if text := os.Getenv("MODELGATE_SOAK"); text != "" {
		var err error
		total, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	if total == 0 {
		testenv.Long(t)
	}
	t.Parallel()
	s := startSoaked(t)
	begun, replaced := time.Now(), 0
	pace := time.NewTicker(soakPace)
	defer pace.Stop()
	for n := 0; time.Since(begun) < total; n++ {
		<-pace.C
		// The second half shows whether a service that is not replaced grows.
		if n%200 == 20 && time.Since(begun) < total/2 {
			require.Equal(t, "replaced: "+outcomes["replaced"], s.replace(t))
			replaced++
			continue
		}
		kind, outcome := s.ask(rand.New(rand.NewPCG(uint64(n), 1)))
		require.Equal(t, kind+": "+outcomes[kind], outcome, "request %d", n)
		if n%200 == 199 {
			s.settle(t)
			s.measure(t, time.Since(begun) > total/2)
			s.record(t, begun, replaced)
		}
	}
	s.settle(t)
	s.measure(t, true)
	require.LessOrEqual(t, s.last.goroutines, s.warm.goroutines+20)
	require.LessOrEqual(t, s.last.files, s.warm.files+20)
	require.LessOrEqual(t, s.last.memory, s.warm.memory+64<<20)
	s.record(t, begun, replaced)
}

func startSoaked(t *testing.T) *soaked {
	s := &soaked{split: newSplit(t), vendor: newMeteredVendor(t), asked: map[string]int64{}, outcomes: map[string]int{}}
	s.listen = [2]string{s.socket("xds0"), s.socket("xds1")}
	s.client = []string{"--xds-address", s.listen[0]}
	s.start()
	upstream := httptest.NewServer(s.vendor)
	t.Cleanup(upstream.Close)
	harness.Must(t, "kind: Provider\nname: metered\nvendor: openai\nendpoint: "+upstream.URL+"\n---\n"+
		"kind: Provider\nname: absent\nvendor: openai\nendpoint: http://127.0.0.1:1/v1\n---\n"+
		"kind: Model\nname: second\ntargets:\n- {provider: absent, model: first}\n"+
		"- {provider: metered, model: whole, priority: 1}\n",
		append([]string{"config", "apply", "-f", "-"}, s.at(0)...)...)
	harness.Eventually(t, "the provider", func() error { return s.has("metered/whole", "second") })
	s.begun = time.Now()
	s.clean = &gateway{&harness.Gateway{URL: s.URL, Key: s.Key,
		Client: harness.ClientFor(t, filepath.Join(s.Dir, "ca.crt"))}}
	return s
}

// ask asks something, and returns of which kind it was, and what came of it.
func (s *soaked) ask(random *rand.Rand) (kind, outcome string) {
	kinds := []string{"whole", "whole", "left", "cut", "second", "large", "half a body", "unknown", "no JSON", "no key"}
	kind = kinds[random.IntN(len(kinds))]
	outcome = s.play(kind, random)
	s.outcomes[outcome]++
	return kind, outcome
}

func (s *soaked) play(kind string, random *rand.Rand) string {
	var status int
	var body string
	var err error
	switch kind {
	case "whole", "left", "cut":
		// Each that is reset has a connection of its own: Envoy closes one on which most streams are reset.
		g := s.clean
		if kind != "whole" {
			g = &gateway{&harness.Gateway{URL: s.URL, Key: s.Key,
				Client: harness.ClientFor(s.t, filepath.Join(s.Dir, "ca.crt"))}}
			defer g.Client.CloseIdleConnections()
		}
		s.count("metered/" + kind)
		return fmt.Sprint(kind, ": ", g.stream(kind))
	case "second":
		s.count("second")
		status, body, err = s.clean.post("/v1/chat/completions", s.Key,
			`{"model":"second","stream":true,"messages":[{"role":"user","content":"one two"}]}`)
		return fmt.Sprint(kind, ": ", status, strings.HasSuffix(body, "data: [DONE]\n\n"), err)
	case "large":
		status, body, err = s.clean.post("/v1/chat/completions", s.Key, `{"model":"echo/echo","messages":[{"role":"user",`+
			`"content":"`+strings.Repeat("large ", 1+random.IntN(300_000))+`"}]}`)
		return fmt.Sprint(kind, ": ", status, len(body) > 0, err)
	case "half a body":
		return kind + ": " + s.breakOff(random)
	case "unknown":
		status, _, err = s.clean.post("/v1/chat/completions", s.Key, `{"model":"nobody/has","messages":[]}`)
	case "no JSON":
		status, _, err = s.clean.post("/v1/chat/completions", s.Key, `{"model":"echo/echo","messages":[`)
	case "no key":
		status, _, err = s.clean.post("/v1/chat/completions", "", `{}`)
	}
	return fmt.Sprint(kind, ": ", status, err)
}

// breakOff sends a part of a body, and leaves.
func (s *soaked) breakOff(random *rand.Rand) string {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	r, w := io.Pipe()
	sent := bytes.Repeat([]byte("x"), 1+random.IntN(200_000))
	go func() {
		_, _ = w.Write(append([]byte(`{"model":"metered/whole","messages":[{"role":"user","content":"`), sent...))
		leave()
	}()
	defer func() { _ = r.Close() }()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", r)
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+s.Key)
	client := harness.ClientFor(s.t, filepath.Join(s.Dir, "ca.crt"))
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err == nil {
		_ = response.Body.Close()
		return strconv.Itoa(response.StatusCode)
	}
	return fmt.Sprint("left: ", errors.Is(err, context.Canceled))
}

func (s *soaked) count(model string) {
	s.asked[model]++
}

// replace stops the ext_proc service while a stream is open, which ends whole, and starts another.
func (s *soaked) replace(t *testing.T) string {
	s.count("metered/left")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(
		`{"model":"metered/left","stream":true,"messages":[{"role":"user","content":"one two"}]}`))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Authorization", "Bearer "+s.Key)
	response, err := s.clean.Client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	first := make([]byte, 100)
	if _, err := io.ReadFull(response.Body, first); err != nil {
		return err.Error()
	}
	s.extproc.Stop(t)
	rest, err := io.ReadAll(response.Body)
	s.startExtProc()
	s.awaitService()
	return fmt.Sprint("replaced: ", bytes.HasSuffix(rest, []byte("data: [DONE]\n\n")), err)
}

// settle waits until the ledger has each exchange that was asked for, and looks that it has none twice.
func (s *soaked) settle(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "every exchange is in the ledger", func() error {
		charged := s.ledgerUsage(t, s.begun)
		for model, n := range s.asked {
			if got := charged[model].requests; got != n {
				return fmt.Errorf("%s: %d of %d", model, got, n)
			}
		}
		return nil
	})
	s.vendor.mu.Lock()
	defer s.vendor.mu.Unlock()
	charged := s.ledgerUsage(t, s.begun)
	whole, second := charged["metered/whole"], charged["second"]
	require.Equal(t, s.vendor.sent["whole"], counted{whole.requests + second.requests, whole.input + second.input,
		whole.output + second.output}, "what the vendor counted, and what is charged")
}

// measure reads what the service has. What it first has after the last replacement is what it may not grow beyond.
func (s *soaked) measure(t *testing.T, lasting bool) {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.extproc.PID()))
	require.NoError(t, err)
	s.last = grown{memory: memory(t, s.extproc.PID()), files: len(files)}
	response, err := http.Get(adminURL(t, s.extproc) + "/metrics")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\ngo_goroutines ")
	require.True(t, found)
	number, _, _ := strings.Cut(after, "\n")
	s.last.goroutines, err = strconv.ParseFloat(number, 64)
	require.NoError(t, err)
	if lasting && s.warm.files == 0 {
		s.warm = s.last
	}
}

// record writes what was seen so far.
func (s *soaked) record(t *testing.T, begun time.Time, replaced int) {
	t.Helper()
	text := fmt.Sprintf("TestSoak of test/e2e: the gateway over the real Envoy. Written by `make soak`.\n\n"+
		"begun %s, ran %v; %d replacements of the ext_proc service with a stream open\n"+
		"charged once each: %v\nmemory %.1f MB, then %.1f MB; files %d, then %d; goroutines %.0f, then %.0f\noutcomes: %v\n",
		begun.UTC().Format(time.RFC3339), time.Since(begun).Round(time.Second), replaced, s.asked,
		float64(s.warm.memory)/(1<<20), float64(s.last.memory)/(1<<20), s.warm.files, s.last.files, s.warm.goroutines,
		s.last.goroutines, s.outcomes)
	if path := os.Getenv("MODELGATE_SOAK_RECORD"); path != "" {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return
	}
	t.Log(text)
}
