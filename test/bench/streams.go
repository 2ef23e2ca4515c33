package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// startersAtOnce is how many streams are being started at any time: a TLS handshake, a request, the first chunk.
	startersAtOnce = 32
	// startTimeout is how long it may take until all streams are open. What is open then is measured.
	startTimeout = 40 * time.Second
	// settle is how long the target is left alone before it counts as idle, or as busy with nothing but open streams.
	settle = 500 * time.Millisecond
	// memoryEvery is how often memory is read while the streams are open.
	memoryEvery = 250 * time.Millisecond
)

// A stage counts what the streams do.
type stage struct {
	starters chan struct{}  // holds one for each stream that is being started
	starting sync.WaitGroup // the streams that have neither had a chunk nor failed
	open     atomic.Int64   // streams that have had a chunk and have not ended
	chunks   atomic.Int64

	measuring atomic.Bool
	mu        sync.Mutex      // guards what follows
	delays    []time.Duration // of chunks that came while it was measured
	firsts    []time.Duration // from a request to its first chunk
}

// streams measures streamed answers: it starts all, measures while all are open, has the mock end them, and reads each
// to its end. Memory counts from before the first connection, and at its highest while all are open.
func (l *load) streams(ctx context.Context) (*outcome, error) {
	if err := l.warm(ctx); err != nil {
		return nil, err
	}
	body, err := requestBody(l.job.Model, l.job.BodyBytes, true)
	if err != nil {
		return nil, err
	}
	idle, err := l.meter.memory()
	if err != nil {
		return nil, err
	}
	s := &stage{starters: make(chan struct{}, startersAtOnce)}
	tallies := make([]tally, l.job.Connections)
	var workers sync.WaitGroup
	starting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	s.starting.Add(len(tallies))
	for i, c := range l.askers() {
		workers.Go(func() {
			began := time.Now()
			err := l.stream(starting, c, body, s)
			tallies[i].add(time.Since(began), err)
		})
	}
	// An error ends the process, and the streams with it.
	s.awaitAll(ctx)
	o, err := l.window(ctx, s, idle)
	if err != nil {
		return nil, err
	}
	giveUp()
	if err := setProfile(ctx, l.job.MockAddress, profile{Interval: time.Second}); err != nil {
		return nil, err
	}
	workers.Wait()
	o.take(merge(tallies))
	slices.Sort(s.firsts)
	slices.Sort(s.delays)
	o.P50, o.P99 = milliseconds(quantile(s.firsts, 0.50)), milliseconds(quantile(s.firsts, 0.99))
	o.Delay, o.Delay99 = milliseconds(quantile(s.delays, 0.50)), milliseconds(quantile(s.delays, 0.99))
	return o, ctx.Err()
}

// warm has the target answer for a while, so that what it needs only once is not counted as a stream's.
func (l *load) warm(ctx context.Context) error {
	body, err := requestBody(l.job.Model, l.job.BodyBytes, false)
	if err != nil {
		return err
	}
	c := &client{at: l.at}
	t := closedLoop(ctx, []asker{c}, body, l.job.Warmup)
	c.close()
	if t.first != nil {
		return t.first
	}
	wait(ctx, settle)
	return ctx.Err()
}

var errNotStarted = errors.New("other streams took too long to start")

// stream asks for one stream, if its turn comes before starting ends, and reads it to the end.
func (l *load) stream(starting context.Context, c asker, body []byte, s *stage) error {
	select {
	case s.starters <- struct{}{}:
	case <-starting.Done():
		s.starting.Done()
		return errNotStarted
	}
	started := sync.OnceFunc(func() {
		<-s.starters
		s.starting.Done()
	})
	defer started()
	defer c.close()
	open := false
	defer func() {
		if open {
			s.open.Add(-1)
		}
	}()
	var first time.Duration
	var delays []time.Duration
	defer func() { s.note(first, delays) }()
	if own, ok := c.(*client); ok {
		if err := own.dial(); err != nil { // which is no part of the time to the first chunk
			return err
		}
	}
	began := time.Now()
	return c.ask(body, startTimeout+l.job.Window+2*requestTimeout, func(r io.Reader) error {
		return readStream(r, func(sent time.Time) {
			s.chunks.Add(1)
			if s.measuring.Load() {
				delays = append(delays, time.Since(sent))
			}
			if !open {
				open, first = true, time.Since(began)
				s.open.Add(1)
				started()
			}
		})
	})
}

func (s *stage) note(first time.Duration, delays []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.firsts, s.delays = append(s.firsts, first), append(s.delays, delays...)
}

// awaitAll waits until every stream is open or has failed, but not for ever.
func (s *stage) awaitAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	go func() {
		s.starting.Wait()
		cancel()
	}()
	<-ctx.Done()
}

// window measures the streams that are open.
func (l *load) window(ctx context.Context, s *stage, idle map[part]float64) (*outcome, error) {
	wait(ctx, settle)
	before, err := l.meter.read()
	if err != nil {
		return nil, err
	}
	chunks, open := s.chunks.Load(), s.open.Load()
	grown := make(map[part]float64)
	s.measuring.Store(true)
	defer s.measuring.Store(false)
	for end := time.Now().Add(l.job.Window); time.Now().Before(end) && wait(ctx, min(memoryEvery, time.Until(end))); {
		now, err := l.meter.memory()
		if err != nil {
			return nil, err
		}
		for p, kb := range now {
			grown[p] = max(grown[p], kb-idle[p])
		}
	}
	o, err := l.meter.since(before)
	if err != nil {
		return nil, err
	}
	o.Chunks, o.Concurrent, o.Memory = int(s.chunks.Load()-chunks), int(min(open, s.open.Load())), grown
	return o, nil
}
