package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

const (
	crashConcurrency = 64              // of each job service
	finishFor        = 4 * time.Minute // how long the batch may take in all
)

var (
	crashLines = testenv.Size(1000, 5000)
	killFor    = time.Duration(testenv.Size(15, 60)) * time.Second // for how long processes are killed
)

// TestCrashes runs a batch over a provider that fails at random, while every second one of the gateway's processes is
// killed, etcd among them. What is wrong with the outcome would be a lost line, a line twice, or one that is charged
// twice.
func TestCrashes(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := startCrashing(t, seed)
	var input []string
	for n := range crashLines {
		input = append(input, harness.ChatLine(fmt.Sprint("line-", n), "flaky/any", fmt.Sprint("line-", n)))
	}
	began := time.Now()
	client := c.s.as(c.s.Key)
	id := client.Begin(t, chatPath, input...)
	b := c.killUntilOver(client, id)
	t.Logf("over after %v: %d kills %v, %d ended by themselves %v", time.Since(began).Round(100*time.Millisecond),
		c.kills(), c.killed, len(c.fell), c.fell)

	require.Equal(t, "completed", b.Status, "%+v", b.Errors)
	c.s.awaitService()
	c.s.awaitJobs(t)
	out, failed := client.Results(t, b.OutputFileID), client.Results(t, b.ErrorFileID)
	t.Logf("%d lines in the output, %d in the error file", len(out), len(failed))
	c.requireOnce(b, out, failed)
	c.requireUsage(b, out)
	c.requireCharges(id, out)
	c.requireAskedAgain()
}

// A crashing is a gateway whose processes are killed.
type crashing struct {
	t        *testing.T
	s        *jobSplit
	etcd     *harness.Etcd
	provider *flaky
	random   *rand.Rand
	victims  []victim
	killed   map[string]int
	fell     []string // the names of those that ended by themselves, each time
	extprocs []*harness.Process
}

// A victim is a process that is killed, and started again.
type victim struct {
	name    string
	process func() *harness.Process
	start   func()
}

func startCrashing(t *testing.T, seed uint64) *crashing {
	etcd := harness.StartEtcd(t)
	s := &jobSplit{split: newSplitOver(t, etcd.Endpoint()), flags: []string{"--lease", "2s", "--batch-concurrency",
		fmt.Sprint(crashConcurrency)}}
	s.onSockets()
	c := &crashing{t: t, s: s, etcd: etcd, random: rand.New(rand.NewPCG(seed, 1)), killed: map[string]int{}}
	// One control plane is enough: the second would be one more that nobody asks.
	s.planes[1] = s.startPlane(1)
	s.planes[0] = s.startPlane(0)
	s.configure()
	s.planes[1].Kill()
	s.startExtProc()
	c.extprocs = append(c.extprocs, s.extproc)
	s.startEnvoy()
	s.awaitService()
	s.startService(0)
	s.startService(1)
	s.awaitJobs(t)
	c.provider = newFlaky(t, seed)
	s.addProvider(t, "flaky", c.provider.URL+"/v1")
	c.victims = []victim{
		{"etcd", func() *harness.Process { return etcd.Process }, func() { etcd.Restart(t) }},
		{"control plane", func() *harness.Process { return s.planes[0] }, func() { s.planes[0] = s.launchPlane(0) }},
		{"ext_proc service", func() *harness.Process { return s.extproc }, func() {
			s.launchExtProc()
			c.extprocs = append(c.extprocs, s.extproc)
		}},
		{"Envoy", func() *harness.Process { return s.envoy }, s.startEnvoy},
		{"job service 0", func() *harness.Process { return s.services[0] }, func() { s.startService(0) }},
		{"job service 1", func() *harness.Process { return s.services[1] }, func() { s.startService(1) }},
	}
	return c
}

func (c *crashing) kills() (n int) {
	for _, k := range c.killed {
		n += k
	}
	return n
}

// killUntilOver kills a process every second, for as long as that is done, until the batch is over. What has ended is
// started again at once.
func (c *crashing) killUntilOver(client harness.Client, id string) (b harness.Batch) {
	c.t.Helper()
	impatient := *client.Gateway.Client
	impatient.Timeout = 300 * time.Millisecond
	client.Gateway.Client = &impatient
	defer func() { impatient.Timeout = time.Minute }()
	began, next := time.Now(), time.Now().Add(time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; !b.Over(); <-tick.C {
		require.Less(c.t, time.Since(began), finishFor, "the batch is %s, %+v", b.Status, b.Counts)
		for _, v := range c.victims {
			if v.process().Ended() {
				c.fell = append(c.fell, v.name)
				v.start()
			}
		}
		if now := time.Now(); now.After(next) && now.Sub(began) < killFor {
			next = now.Add(time.Second)
			v := c.victims[c.random.IntN(len(c.victims))]
			c.killed[v.name]++
			v.process().Kill()
			v.start()
		}
		_ = client.Try(http.MethodGet, "/v1/batches/"+id, &b) // it is tried again
	}
	return b
}

// requireOnce checks that every line is in one file, once.
func (c *crashing) requireOnce(b harness.Batch, out, failed map[string]harness.Result) {
	c.t.Helper()
	require.Equal(c.t, crashLines, len(out)+len(failed))
	for n := range crashLines {
		id := fmt.Sprint("line-", n)
		_, good := out[id]
		_, bad := failed[id]
		require.True(c.t, good != bad, id)
		if good {
			require.Equal(c.t, "answer to "+id, gjson.GetBytes(out[id].Response.Body, "choices.0.message.content").Str)
		}
	}
	require.Equal(c.t, crashLines, b.Counts.Total)
	require.Equal(c.t, len(out), b.Counts.Completed)
	require.Equal(c.t, len(failed), b.Counts.Failed)
	statuses := map[string]int{}
	for _, r := range failed {
		key := "no response"
		if r.Response != nil {
			key = fmt.Sprint(r.Response.StatusCode, " ", gjson.GetBytes(r.Response.Body, "error.code"))
		}
		statuses[key]++
	}
	c.t.Logf("lines that failed: %v", statuses)
}

// requireUsage checks that the batch's usage is that of its output.
func (c *crashing) requireUsage(b harness.Batch, out map[string]harness.Result) {
	c.t.Helper()
	var input, output int64
	for id, r := range out {
		prompt, completion := tokensOf(id)
		require.Equal(c.t, prompt, gjson.GetBytes(r.Response.Body, "usage.prompt_tokens").Int(), id)
		input, output = input+prompt, output+completion
	}
	require.NotNil(c.t, b.Usage)
	require.Equal(c.t, input, b.Usage.InputTokens)
	require.Equal(c.t, output, b.Usage.OutputTokens)
	c.t.Logf("usage %d + %d tokens, the sum over the output", input, output)
}

// charges returns, of the exchanges in the access log that have an answer, their number, and the tokens for each
// charge id, which is the batch's and the line's.
func (c *crashing) charges(id string) (exchanges int, charged map[string]int64) {
	c.t.Helper()
	charged = map[string]int64{}
	for _, p := range c.extprocs {
		for _, line := range p.Lines() {
			start := strings.Index(line, "{")
			if start < 0 || !strings.Contains(line, `"charge":"`) {
				continue
			}
			record := gjson.Parse(line[start:])
			charge := record.Get("charge").Str
			require.True(c.t, strings.HasPrefix(charge, id+"/"), charge)
			if record.Get("status").Int() != http.StatusOK {
				continue
			}
			exchanges++
			tokens := record.Get("prompt_tokens").Int() + record.Get("completion_tokens").Int()
			if tokens > 0 {
				before, again := charged[charge]
				require.True(c.t, !again || before == tokens, "%s: %d and %d tokens", charge, before, tokens)
				charged[charge] = tokens
			}
		}
	}
	return exchanges, charged
}

// requireCharges checks what would be charged. An exchange whose ext_proc service was killed before it wrote has no
// record. Others may have theirs a moment later: after failed attempts a record waits for the log of an Envoy, which
// may have been killed.
func (c *crashing) requireCharges(id string, out map[string]harness.Result) {
	c.t.Helper()
	lost := 2 * c.killed["ext_proc service"] * c.provider.most
	harness.Eventually(c.t, "records of the answered lines", func() error {
		if _, charged := c.charges(id); len(out)-len(charged) > lost {
			return fmt.Errorf("%d lines, %d charges, of which %d may be lost", len(out), len(charged), lost)
		}
		return nil
	})
	exchanges, charged := c.charges(id)
	var sum, used int64
	for _, n := range charged {
		sum += n
	}
	for id := range out {
		prompt, completion := tokensOf(id)
		used += prompt + completion
	}
	unrecorded := len(out) - len(charged)
	c.t.Logf("%d answered exchanges are in the access log, with %d charge ids: %d tokens charged, %d used, %d lines without a record",
		exchanges, len(charged), sum, used, unrecorded)
	require.LessOrEqual(c.t, len(charged), crashLines)
	if unrecorded == 0 {
		require.Equal(c.t, used, sum)
	}
}

// requireAskedAgain checks that of what the provider has answered, no more was asked again than was under way at the
// kills: there, or answered but not kept yet.
func (c *crashing) requireAskedAgain() {
	c.t.Helper()
	c.provider.mu.Lock()
	defer c.provider.mu.Unlock()
	again, asked := 0, 0
	for _, n := range c.provider.answered {
		again += n - 1
	}
	for _, n := range c.provider.asked {
		asked += n
	}
	c.t.Logf("the provider was asked %d times for %d lines, gave %d answers twice, and had %d lines at once at the most; %v",
		asked, len(c.provider.asked), again, c.provider.most, c.provider.did)
	require.Len(c.t, c.provider.answered, crashLines-c.unanswered())
	require.LessOrEqual(c.t, again, 2*c.kills()*c.provider.most)
}

// unanswered is how many lines have got nothing but failures.
func (c *crashing) unanswered() (n int) {
	for line := range c.provider.asked {
		if c.provider.answered[line] == 0 {
			n++
		}
	}
	return n
}

// A flaky provider fails at random.
type flaky struct {
	*httptest.Server
	mu       sync.Mutex // guards what follows
	random   *rand.Rand
	asked    map[string]int // by line
	answered map[string]int // with an answer that was written whole
	did      map[string]int
	now      int
	most     int
}

func newFlaky(t *testing.T, seed uint64) *flaky {
	f := &flaky{random: rand.New(rand.NewPCG(seed, 2)), asked: map[string]int{}, answered: map[string]int{},
		did: map[string]int{}}
	f.Server = cases.NewProvider(t, f.serve)
	return f
}

// tokensOf is what a line uses.
func tokensOf(line string) (prompt, completion int64) {
	n := int64(len(line))
	for _, c := range line {
		n += int64(c)
	}
	return n%97 + 1, n%31 + 1
}

func (f *flaky) decide(line string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[line]++
	f.now++
	f.most = max(f.most, f.now)
	what := "answered"
	switch n := f.random.IntN(200); {
	case n < 10:
		what = "500"
	case n < 16:
		what = "cut"
	case n < 24:
		what = "slow"
	case n == 24: // rare: whoever asks takes it for a sign to ask less
		what = "429"
	}
	f.did[what]++
	return what
}

func (f *flaky) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	line := gjson.GetBytes(body, "messages.0.content").Str
	what := f.decide(line)
	defer func() {
		f.mu.Lock()
		f.now--
		f.mu.Unlock()
	}()
	pause := 10 * time.Millisecond
	switch what {
	case "500":
		http.Error(w, `{"error":{"message":"oh","type":"server_error","param":null,"code":null}}`,
			http.StatusInternalServerError)
		return
	case "429":
		w.Header().Set("Retry-After-Ms", "50")
		http.Error(w, `{"error":{"message":"slower","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
			http.StatusTooManyRequests)
		return
	case "cut":
		panic(http.ErrAbortHandler)
	case "slow":
		pause = 300 * time.Millisecond
	}
	select {
	case <-time.After(pause):
	case <-r.Context().Done():
		return
	}
	prompt, completion := tokensOf(line)
	answerLine(w, "answer to "+line, prompt, completion)
	f.mu.Lock()
	f.answered[line]++
	f.mu.Unlock()
}
