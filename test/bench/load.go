package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// requestTimeout is for an answer that is not streamed, and for what a stream takes over its planned time.
const requestTimeout = 30 * time.Second

// A job is one measurement, as the load generator is told on its standard input.
type job struct {
	URL   string // of the target, without a path
	CA    string // file of the authority that the target's certificate is checked against; empty: it has no TLS
	Key   string
	Head  string // more lines of a request's headers
	Model string
	PID   int  // of the target; its descendants belong to it
	Root  part // what that process is

	MockAddress string
	MockPID     int // the mock is not counted

	BodyBytes   int // of a request
	Connections int
	Rate        float64       // requests a second; 0: each connection asks again when it has its answer
	Warmup      time.Duration // not measured
	Window      time.Duration // measured

	Together int // requests that share a connection of HTTP/2; 0: each has one of HTTP/1.1 to itself

	Stream bool // one stream for each connection; the window begins when all are open
}

// An outcome is what a measurement found, as the load generator prints it.
type outcome struct {
	Seconds    float64 // of the window
	OK         int     // requests or streams that were answered in full
	Failures   map[string]int
	FirstError string
	P50, P99   float64          // latency in ms; of streams, up to the first chunk
	Delay      float64          // of the chunks of streams, from the mock to the client, in ms: the median
	Delay99    float64          // likewise, which 1 % exceeds
	Chunks     int              // received in the window
	Concurrent int              // streams that were open throughout the window
	CPU        map[part]float64 // seconds in the window
	Memory     map[part]float64 // KB that the target grew by; of streams only
	Others     float64          // share of the machine's CPU that neither the target nor the measuring used
}

func (o *outcome) failed() int {
	n := 0
	for _, count := range o.Failures {
		n += count
	}
	return n
}

// generate runs the job that it reads, and writes the outcome.
func generate(ctx context.Context, in io.Reader, out io.Writer) error {
	var j job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	at, err := newEndpoint(&j)
	if err != nil {
		return err
	}
	l := &load{job: j, at: at, meter: meter{proc: "/proc", target: j.PID, root: j.Root,
		ours: []int{j.MockPID, os.Getpid()}}}
	var o *outcome
	if j.Stream {
		o, err = l.streams(ctx)
	} else {
		o, err = l.requests(ctx)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(o)
}

// A load generates load and measures what it costs.
type load struct {
	job   job
	at    *endpoint
	meter meter
}

// requests measures answers that are not streamed, on connections that the warm-up has opened.
func (l *load) requests(ctx context.Context) (*outcome, error) {
	body, err := requestBody(l.job.Model, l.job.BodyBytes, false)
	if err != nil {
		return nil, err
	}
	clients := l.askers()
	for _, c := range clients {
		defer c.close()
	}
	closedLoop(ctx, clients, body, l.job.Warmup)
	before, err := l.meter.read()
	if err != nil {
		return nil, err
	}
	var t tally
	if l.job.Rate > 0 {
		t = openLoopAt(ctx, clients, body, l.job.Rate, l.job.Window)
	} else {
		t = closedLoop(ctx, clients, body, l.job.Window)
	}
	o, err := l.meter.since(before)
	if err != nil {
		return nil, err
	}
	o.take(t)
	return o, ctx.Err()
}

func (o *outcome) take(t tally) {
	o.OK, o.Failures = len(t.latencies), t.failures
	o.P50, o.P99 = milliseconds(quantile(t.latencies, 0.50)), milliseconds(quantile(t.latencies, 0.99))
	if t.first != nil {
		o.FirstError = t.first.Error()
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (l *load) askers() []asker {
	var all []asker
	for len(all) < l.job.Connections {
		if l.job.Together > 0 {
			all = append(all, newMultiplexed(l.at, l.job.Together)...)
		} else {
			all = append(all, &client{at: l.at})
		}
	}
	return all[:l.job.Connections]
}

// closedLoop has every client ask again as soon as it has its answer, for d.
func closedLoop(ctx context.Context, clients []asker, body []byte, d time.Duration) tally {
	deadline := time.Now().Add(d)
	tallies := make([]tally, len(clients))
	var workers sync.WaitGroup
	for i, c := range clients {
		workers.Go(func() {
			for began := time.Now(); began.Before(deadline) && ctx.Err() == nil; began = time.Now() {
				err := c.ask(body, requestTimeout, discard)
				tallies[i].add(time.Since(began), err)
			}
		})
	}
	workers.Wait()
	return merge(tallies)
}

// openLoopAt sends requests at a constant rate for d, whether or not earlier ones have been answered while there is a
// free client. The latency of a request counts from when it was due, so that a stall shows on all that it held up.
func openLoopAt(ctx context.Context, clients []asker, body []byte, rate float64, d time.Duration) tally {
	count := int(rate * d.Seconds())
	due := make(chan time.Time, count)
	go pace(ctx, due, count, time.Duration(float64(time.Second)/rate))
	tallies := make([]tally, len(clients))
	var workers sync.WaitGroup
	for i, c := range clients {
		workers.Go(func() {
			for at := range due {
				err := c.ask(body, requestTimeout, discard)
				tallies[i].add(time.Since(at), err)
			}
		})
	}
	workers.Wait()
	return merge(tallies)
}

// pace sends count times, each when it has come, and then closes the channel.
func pace(ctx context.Context, due chan<- time.Time, count int, gap time.Duration) {
	defer close(due)
	runtime.LockOSThread() // sleepUntil blocks it
	defer runtime.UnlockOSThread()
	start := time.Now()
	for i := 1; i <= count && ctx.Err() == nil; i++ {
		at := start.Add(time.Duration(i) * gap)
		sleepUntil(at)
		due <- at
	}
}

// requestBody returns a chat request of the given size, or a larger one where that is too small for any.
func requestBody(model string, bytes int, stream bool) ([]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	request := struct {
		Model    string    `json:"model"`
		Stream   bool      `json:"stream,omitempty"`
		Messages []message `json:"messages"`
	}{model, stream, []message{{Role: "user"}}}
	empty, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	request.Messages[0].Content = strings.Repeat("x", max(0, bytes-len(empty)))
	return json.Marshal(request)
}
