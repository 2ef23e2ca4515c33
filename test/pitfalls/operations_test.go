package pitfalls

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/test/harness"
)

// operationRows are those of what goes wrong after days, in an emergency, or at the hands of an enemy. Rows 120, 121
// and 127 are in security_test.go, 123 to 126 in reuse_test.go.
func operationRows(on onGateway, apart onApart) []row {
	return []row{
		{117, "memory stays where it is, whatever is asked", on(soak)},
		{118, "what is too old is deleted some rows at a time, while records go on", prunedInChunks},
		{119, "traffic goes on while stores are away, also after restarts", apart(storesUnavailable)},
		{120, "no client has the gateway connect to an address of its choice", on(noForgedAddress)},
		{121, "what is built, installed and run is pinned by its hash", pinned},
		{122, "no name that a client makes up becomes a series of metrics", on(boundedSeries)},
		{123, "what is configured is the same for the last request as for the first", on(nothingAccumulates)},
		{124, "text is counted whatever its role, also that of tools (of guardrails that could be evaded there are none)",
			on(everyRoleCounts)},
		{125, "no answer is given twice, and what is repeated by intent is known by its tenant and content",
			on(nothingReused)},
		{126, "an answer comes in the form in which it was asked for, whoever asked the same before", on(formAsAsked)},
		{127, "what a client authenticates with never reaches a provider", on(clientsCredentials)},
	}
}

// A memoryUse is what the processes of a gateway take.
type memoryUse struct {
	heap, goroutines, envoy int64
}

// memoryUse measures what is left after a collection: the heap at which the next begins is twice that.
func (g limitGateway) memoryUse(t *testing.T) memoryUse {
	t.Helper()
	metric := func(name string) int64 {
		n, err := strconv.ParseFloat(g.metrics(t)[name], 64)
		require.NoError(t, err, name)
		return int64(n)
	}
	return memoryUse{metric("go_memstats_next_gc_bytes") / 2, metric("go_goroutines"), envoyMemory(t, g.PID())}
}

// metrics are the series of the gateway.
func (g limitGateway) metrics(t *testing.T) map[string]string {
	t.Helper()
	response, err := g.Client.Get(g.Admin + "/metrics")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	series := map[string]string{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if i := strings.LastIndexByte(lines.Text(), ' '); i > 0 && lines.Text()[0] != '#' {
			series[lines.Text()[:i]] = lines.Text()[i+1:]
		}
	}
	require.NotEmpty(t, series)
	return series
}

// envoyMemory is the resident memory in bytes of the children of a process (Linux's /proc).
func envoyMemory(t *testing.T, parent int) (total int64) {
	t.Helper()
	statuses, err := filepath.Glob("/proc/[0-9]*/status")
	require.NoError(t, err)
	for _, path := range statuses {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), fmt.Sprintf("\nPPid:\t%d\n", parent)) {
			continue // it has ended since, or is another's
		}
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		var kB int64
		_, _ = fmt.Sscan(rest, &kB)
		total += kB << 10
	}
	require.NotZero(t, total, "Envoy's memory")
	return total
}

// soak asks in every way in which a request can end, under names that nobody has asked for before.
func soak(t *testing.T, g limitGateway) {
	const warmUp, total, clients = 5000, 20_000, 16
	g.worker.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
		g.worker.forget()
		switch {
		case a.body.Get("stop").Str == "never": // the client leaves
			write(w, openAI.stream(counted)[:2]...)
			<-r.Context().Done()
		case a.body.Get("stream").Bool():
			write(w, openAI.stream(counted)...)
		default:
			answerLine(w, r, a)
		}
	})
	var next atomic.Int64
	until := func(n int64) memoryUse {
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for i := next.Add(1); i <= n && !t.Failed(); i = next.Add(1) {
					if err := g.soaked(t.Context(), i); err != nil {
						t.Errorf("request %d: %v", i, err)
					}
				}
			})
		}
		all.Wait()
		next.Store(n)
		g.Client.CloseIdleConnections()
		return g.memoryUse(t)
	}
	warm := until(warmUp)
	last := until(total) // on one connection, on which the client leaves 1,900 streams
	t.Logf("%d requests: heap %d kB, then %d kB; %d goroutines, then %d; Envoy %d kB, then %d kB", total,
		warm.heap>>10, last.heap>>10, warm.goroutines, last.goroutines, warm.envoy>>10, last.envoy>>10)
	// A collection in the middle of a merge of segments finds more. What is never given back is found by each.
	harness.Eventually(t, "memory is given back", func() error {
		if heap := until(next.Load() + 500).heap; heap >= warm.heap+warm.heap/4+(12<<20) {
			return fmt.Errorf("the heap has %d kB", heap>>10)
		}
		return nil
	})
	require.Less(t, last.envoy, warm.envoy+warm.envoy/5+(16<<20))
	harness.Eventually(t, "goroutines end", func() error {
		if g.memoryUse(t).goroutines > warm.goroutines+30 {
			return errNotYet
		}
		return nil
	})
}

// forget lets go of what the worker was asked.
func (v *worker) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = nil
}

// soaked makes the n-th request, and is an error where it does not end as it should.
func (g limitGateway) soaked(ctx context.Context, n int64) error {
	made := fmt.Sprintf("%x", rand.Uint64())
	key, path, body, want := g.Key, chatPath, chatOf("openai/m", 2, `,"user":"`+made+`"`), http.StatusOK
	switch n % 8 {
	case 0:
		key, want = "sk-mg-"+made, http.StatusUnauthorized
	case 1:
		body, want = chatOf("no-such-model-"+made, 2, ""), http.StatusNotFound
	case 2:
		body = chatOf("openai/"+made, 2, "")
	case 3, 4:
		body = chatOf("openai/m", 2, `,"stream":true,"user":"`+made+`"`)
	case 5:
		path, want = "/no/such/path/"+made, http.StatusNotFound
	case 6:
		return g.left(ctx, chatOf("openai/m", 2, `,"stream":true,"stop":"never"`))
	}
	r, err := g.try(key, path, body)
	stranger := key != g.Key && r.status == http.StatusTooManyRequests // who goes on without a key is told to stop
	if err == nil && r.status != want && !stranger {
		err = fmt.Errorf("status %d and not %d: %s", r.status, want, r.body)
	}
	return err
}

// left asks for a stream and leaves after its first byte.
func (g limitGateway) left(ctx context.Context, body string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+chatPath, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+g.Key)
	response, err := g.Client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.ReadFull(response.Body, make([]byte, 1))
	return err
}

func prunedInChunks(t *testing.T) {
	const old = 200_000
	file := filepath.Join(t.TempDir(), "ledger.db")
	l, err := ledger.Open(t.Context(), (&url.URL{Scheme: "sqlite", Path: filepath.ToSlash(file)}).String(), zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	at := timestamppb.New(time.Now().Add(-60 * 24 * time.Hour))
	for i := range old / 5000 {
		var batch []*ledgerv1.Record
		for n := range 5000 {
			batch = append(batch, &ledgerv1.Record{Id: fmt.Sprintf("%032x", i*5000+n), Key: "key_a", Start: at, End: at,
				Outcome: "finished"})
		}
		require.NoError(t, l.Record(t.Context(), batch))
	}

	done := make(chan struct{})
	var deleted int64
	before, most := heap(), uint64(0)
	go func() {
		defer close(done)
		deleted, err = l.Prune(context.WithoutCancel(t.Context()), ledger.Retention{})
	}()
	kept := 0
	for pruning := true; pruning; {
		require.NoError(t, l.Record(t.Context(),
			[]*ledgerv1.Record{{Id: fmt.Sprint("new-", kept), Key: "key_a", Start: timestamppb.Now(), End: timestamppb.Now(),
				Outcome: "finished"}}))
		kept++
		most = max(most, heap())
		select {
		case <-done:
			pruning = false
		default:
		}
	}
	require.NoError(t, err)
	require.EqualValues(t, old+3, deleted, "and the sums of their minute and of their key")
	t.Logf("%d rows were deleted and %d records kept meanwhile; the heap went from %d kB to %d kB at most", deleted, kept,
		before>>10, most>>10)
	require.Greater(t, kept, 20, "records do not wait for the end of it")
	require.Less(t, most, before+(48<<20), "they are not read into memory")
}

// heap is how much of it is in use. Without a collection it would be how much garbage waits for the next one.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// recorded is how many requests the ledger knows of.
func (g *apartGateway) recorded(t *testing.T) int64 {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprint(g.Admin, "/v1/organization/usage/completions?bucket_width=1d&start_time=",
			time.Now().Add(-time.Hour).Unix()), nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.File(t, "admin-token"))
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	sum := int64(0)
	for _, n := range gjson.GetBytes(text, "data.#.results.#.num_model_requests|@flatten").Array() {
		sum += n.Int()
	}
	return sum
}

func storesUnavailable(t *testing.T, g *apartGateway) {
	recorded := func() int64 { return g.recorded(t) }
	made, begun := int64(0), int64(-1)
	harness.Eventually(t, "earlier requests are recorded", func() error { // which is when there are no more of them
		if n := recorded(); n == 0 || n != begun {
			begun = n
			return errNotYet
		}
		return nil
	})
	goesOn := func(what string) {
		t.Helper()
		for range 10 {
			require.NoError(t, g.answers(), what)
			made++
		}
	}
	away := func(r *relay, what string) {
		r.breakAfter(0)
		goesOn(what)
	}
	away(g.redis, "without Redis")
	away(g.ledger, "without the ledger's database")
	away(g.etcd, "without etcd")
	g.extproc.Kill()
	g.startExtProc()
	g.envoy.Kill()
	g.startEnvoy()
	g.awaitService(t) // of what the control plane knows
	made++
	goesOn("started again without any store")
	out, err := harness.Command(t, "kind: Model\nname: x\ntargets: [{provider: openai, model: m}]\n",
		append([]string{"config", "apply", "-f", "-"}, g.server(t)...)...)
	require.Error(t, err, "a change is refused: %s", out)
	g.plane.Kill()
	goesOn("without a control plane")
	g.startPlane()
	broken := g.etcd.broken.Load()
	harness.Eventually(t, "the new one finds no etcd", func() error {
		if g.etcd.broken.Load() < broken+2 && !g.plane.Ended() {
			return errNotYet
		}
		return nil
	})
	goesOn("with a control plane that knows nothing")
	for _, r := range []*relay{g.etcd, g.ledger, g.redis} {
		r.breakAfter(-1)
	}
	if g.plane.Ended() { // as a supervisor does
		g.startPlane()
	}
	g.awaitPlane(t)
	g.apply(t, &configv1.Model{Name: "back", Targets: []*configv1.Target{{Provider: "openai", Model: "m"}}})
	harness.Eventually(t, "changes are taken again", func() error { return g.has("back") })
	harness.Eventually(t, "every request is in the ledger, once", func() error {
		if n := recorded() - begun; n != made {
			return fmt.Errorf("%d of %d", n, made)
		}
		return nil
	})
}

func boundedSeries(t *testing.T, g limitGateway) {
	ask := func(n int) {
		for i := range n {
			made := fmt.Sprintf("made-up-%d-%x", i, rand.Uint64())
			for _, model := range []string{"openai/" + made, made, made + "/m", "either:" + made} {
				g.ask(t, g.Key, chatPath, chatOf(model, 2, `,"user":"`+made+`"`))
			}
			g.client.Do(t, http.MethodPost, "/"+made, "{}", "X-Request-Id", made, "User-Agent", made)
			g.ask(t, "sk-mg-"+made, chatPath, chatOf("openai/m", 2, ""))
		}
	}
	ask(3)
	before := g.metrics(t)
	ask(100)
	after := g.metrics(t)
	for series := range after {
		require.NotContains(t, series, "made-up")
	}
	require.Less(t, len(after), len(before)+60, "there are a few more at most, of what else has happened meanwhile")
}
