package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
	"github.com/modelgate/modelgate/test/harness"
)

// benchWorkers is how many threads Envoy has for requests.
const benchWorkers = 2

// startBenched starts all parts as processes of their own, over an etcd that syncs to disk.
func startBenched(b *testing.B) (*jobSplit, *harness.Etcd) {
	etcd := harness.StartEtcd(b)
	s := &jobSplit{split: newSplitOver(b, etcd.Endpoint())}
	s.workers = benchWorkers
	s.onSockets()
	s.start()
	s.startService(0)
	s.awaitJobs(b)
	return s, etcd
}

// BenchmarkJobsBatch runs a batch of 50,000 lines and 100 MB over the built-in provider, in a process of its own.
func BenchmarkJobsBatch(b *testing.B) {
	const count, size = 50_000, 100 << 20
	s, etcd := startBenched(b)
	echo := harness.Launch(b, nil, "echo", "--listen", fmt.Sprintf("127.0.0.1:%d", harness.FreePort(b)))
	line := echo.WaitFor(b, "echo provider started")
	address := gjson.Get(line[strings.Index(line, "{"):], "listen").Str
	apply := harness.Documents(b, &configv1.Provider{Name: "echoes", Vendor: "echo", Endpoint: "http://" + address})
	harness.Must(b, apply, append([]string{"config", "apply", "-f", "-"}, s.at(0)...)...)
	harness.Eventually(b, "the provider", func() error { return s.has("echoes/any") })

	c := s.as(s.Key)
	var input strings.Builder
	for n := range count {
		line := harness.ChatLine(fmt.Sprint("line-", n), "echoes/any", "")
		at := strings.LastIndex(line, `""`) + 1
		input.WriteString(line[:at] + strings.Repeat("word ", (size/count-len(line)-1)/5) + line[at:] + "\n")
	}
	file := c.Upload(b, "batch", input.String())
	for b.Loop() {
		parts := map[string]*harness.Process{"job-service": s.services[0], "ext_proc": s.extproc, "Envoy": s.envoy,
			"echo": echo, "etcd": etcd.Process}
		before := map[string]float64{}
		for name, p := range parts {
			before[name] = cpuSeconds(b, p.PID())
		}
		began := time.Now()
		id := c.BeginWith(b, chatPath, file)
		var batch harness.Batch
		for deadline := time.Now().Add(10 * time.Minute); !batch.Over(); pause(200 * time.Millisecond) {
			require.True(b, time.Now().Before(deadline), "%+v", batch)
			require.NoError(b, c.Try(http.MethodGet, "/v1/batches/"+id, &batch))
		}
		took := time.Since(began)
		require.Equal(b, "completed", batch.Status)
		require.Equal(b, count, batch.Counts.Completed)
		b.ReportMetric(count/took.Seconds(), "lines/s")
		b.ReportMetric(float64(peakMemory(b, s.services[0].PID()))/(1<<20), "job-service-peak-MB")
		for name, p := range parts {
			b.ReportMetric((cpuSeconds(b, p.PID())-before[name])/count*1e6, name+"-CPU-us/line")
		}
		b.Logf("%d lines, %d MB: %v from creation to completion", count, input.Len()>>20, took.Round(time.Millisecond))
		bar(b, "at least 2,000 lines a second", count/took.Seconds() >= 2000)
		bar(b, "the job service under 150 MB", peakMemory(b, s.services[0].PID()) < 150<<20)
	}
}

// bar says whether a goal was reached, which is for who reads it to judge: the machine may be busy.
func bar(b *testing.B, goal string, holds bool) {
	b.Helper()
	b.Logf("%s: %s", goal, map[bool]string{true: "holds", false: "MISSED"}[holds])
}

// pause waits, for what is looked at now and then.
func pause(d time.Duration) { <-time.After(d) }

// peakMemory is the most resident memory that a process has had.
func peakMemory(t testing.TB, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "VmHWM:")
	require.True(t, ok)
	kB, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	require.NoError(t, err)
	return kB << 10
}

// cpuSeconds is the CPU time that a process has used.
func cpuSeconds(t testing.TB, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')'):])) // the first is field 2
	sum := 0.0
	for _, i := range []int{12, 13} {
		n, err := strconv.ParseFloat(fields[i], 64)
		require.NoError(t, err)
		sum += n / 100 // USER_HZ
	}
	return sum
}

// BenchmarkJobsUpload uploads a file of 512 MB, and copies as much through the same Envoy without the gateway: to a
// server that writes a file, and to one that forgets what it reads. Each in turn, three times.
func BenchmarkJobsUpload(b *testing.B) {
	const megabytes = 512
	s, _ := startBenched(b)
	plain := startPlainEnvoy(b, s)
	took := map[string][]time.Duration{}
	for b.Loop() {
		for range 3 {
			for name, c := range map[string]harness.Client{"gateway": s.as(s.Key), "copy": plain("/v1/files"),
				"sink": plain("/v1/sink")} {
				began := time.Now()
				id, _ := uploadMegabytes(b, c, megabytes)
				took[name] = append(took[name], time.Since(began))
				if name == "gateway" {
					require.Equal(b, 200, c.Do(b, http.MethodDelete, "/v1/files/"+id, "").Status)
				}
			}
		}
	}
	median := func(name string) float64 { slices.Sort(took[name]); return took[name][len(took[name])/2].Seconds() }
	for _, name := range []string{"gateway", "copy", "sink"} {
		b.ReportMetric(median(name), name+"-s")
		b.Logf("%s: %v", name, took[name])
	}
	bar(b, "an upload within 1.5 times a copy through Envoy", median("gateway") <= 1.5*median("copy"))
	b.ReportMetric(median("gateway")/median("copy"), "of-a-copy")
	b.ReportMetric(median("gateway")/median("sink"), "of-a-sink")
	b.ReportMetric(float64(peakMemory(b, s.services[0].PID()))/(1<<20), "job-service-peak-MB")
}

// startPlainEnvoy starts Envoy without the gateway before a server that writes what is uploaded under /v1/files to a
// file, and forgets everything else. The client that it returns uploads to a path.
func startPlainEnvoy(b *testing.B, s *jobSplit) func(path string) harness.Client {
	folder := b.TempDir()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := io.Discard
		if r.URL.Path == "/v1/files" {
			f, err := os.Create(filepath.Join(folder, "copy"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			defer func() { _ = f.Close() }()
			to = f
		}
		if _, err := io.Copy(to, bufio.NewReaderSize(r.Body, 128<<10)); err != nil {
			return
		}
		_, _ = io.WriteString(w, `{"id":"copied"}`)
	}))
	b.Cleanup(server.Close)
	text, err := os.ReadFile(filepath.Join(testenv.Root(b), "test", "bench", "envoy.yaml"))
	require.NoError(b, err)
	config, err := template.New("envoy.yaml").Parse(string(text))
	require.NoError(b, err)
	host, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	var yaml strings.Builder
	require.NoError(b, config.Execute(&yaml, map[string]string{
		"AdminSocket": filepath.Join(s.Dir, "plain-admin.sock"), "MockHost": host, "MockPort": port,
		"Certificate": filepath.Join(s.Dir, certs.FileServer), "PrivateKey": filepath.Join(s.Dir, certs.FileServerKey),
	}))
	listen := harness.FreePort(b)
	path := filepath.Join(s.Dir, "plain.yaml")
	require.NoError(b,
		os.WriteFile(path, []byte(strings.Replace(yaml.String(), "port_value: 0", fmt.Sprint("port_value: ", listen), 1)),
			0o600))
	cmd := exec.Command(testenv.Envoy(b), "-c", path, "--disable-hot-restart", "--concurrency",
		strconv.Itoa(benchWorkers), "--log-level", "warning")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	harness.Start(b, cmd)
	at := func(path string) harness.Client {
		c := s.as(s.Key)
		c.URL = fmt.Sprintf("https://127.0.0.1:%d", listen) + strings.TrimSuffix(path, "/v1/files")
		return c
	}
	harness.Eventually(b, "Envoy without the gateway",
		func() error { var any struct{}; return at("/v1/files").Try(http.MethodPost, "/v1/x", &any) })
	return at
}

// BenchmarkJobsList reads pages of lists of a hundred and of ten thousand batches.
func BenchmarkJobsList(b *testing.B) {
	s, etcd := startBenched(b)
	records, pages := store.New(etcd.Client(b)), map[int]time.Duration{}
	for b.Loop() {
		for _, count := range []int{100, 10_000} {
			organization := fmt.Sprint("org", count)
			_, key := s.createKey(b, organization)
			now := time.Now()
			for made := 0; made < count; {
				t := records.Begin()
				for range min(100, count-made) {
					batches.Kind.Create(t, &store.Record[batches.Batch]{Tenant: store.Tenant{Organization: organization},
						ID: batches.Kind.NewID(),
						Value: batches.Batch{Endpoint: chatPath, InputFile: "file-x", CompletionWindow: "24h", Key: "k",
							Status: job.BatchCompleted, CreatedAt: now.Unix()}})
					made++
				}
				require.NoError(b, t.Commit(b.Context()))
			}
			c := s.as(key)
			var first, all []time.Duration
			for range 50 {
				began := time.Now()
				require.Equal(b, 200, c.Do(b, http.MethodGet, "/v1/batches?limit=20", "").Status)
				first = append(first, time.Since(began))
			}
			seen := 0
			for after := ""; ; {
				began := time.Now()
				a := c.Do(b, http.MethodGet, "/v1/batches?limit=100"+after, "")
				all = append(all, time.Since(began))
				ids := gjson.GetBytes(a.Body, "data.#.id").Array()
				seen += len(ids)
				if !gjson.GetBytes(a.Body, "has_more").Bool() {
					break
				}
				after = "&after=" + ids[len(ids)-1].Str
			}
			require.Equal(b, count, seen)
			slices.Sort(first)
			slices.Sort(all)
			pages[count] = all[len(all)/2]
			b.ReportMetric(first[len(first)/2].Seconds()*1e3, fmt.Sprintf("ms/page-of-20-among-%d", count))
			b.ReportMetric(all[len(all)/2].Seconds()*1e3, fmt.Sprintf("ms/page-of-100-among-%d", count))
		}
		bar(b, "a page among ten thousand within twice one among a hundred", pages[10_000] <= 2*pages[100])
	}
}
