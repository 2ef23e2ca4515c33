package main

import (
	"slices"
	"strings"
	"time"
)

// A scenario is one way of asking, measured on every target.
type scenario struct {
	name       string
	fresh      bool // every pass starts the target anew: what came before must not have grown its heap
	translated bool // the provider speaks Anthropic's Messages: for gateways only
	light      bool // LiteLLM is measured too: it answers a hundred times fewer requests a second, and takes its time
	share      bool // the mock itself is measured too
	passes     int
	job        job     // without what differs between targets
	answer     profile // what the mock answers
}

// Names of the scenarios that the bars are about.
const (
	manySmall         = "200 B, 64 connections"
	oneSmall          = "200 B, 1 connection"
	manyLarge         = "20 KB, 64 connections"
	slowStreams       = "2,000 slow streams"
	crowd             = "10,000 streams at once"
	openLoop          = "200 requests a second"
	pacedStreams      = "200 streams, a chunk every 40 ms each"
	translatedStreams = "200 streams of Anthropic's, a chunk every 40 ms each"
)

// scenarios returns what is measured, in order. Those that need fresh targets come first.
func scenarios(quick bool) []scenario {
	passes, warmup, window := 3, time.Second, 3*time.Second
	if quick {
		passes, warmup, window = 1, 300*time.Millisecond, time.Second
	}
	requests := func(name string, bytes, connections int) scenario {
		return scenario{name: name, passes: passes, answer: profile{Interval: time.Second, AnswerBytes: 200}, job: job{
			BodyBytes: bytes, Connections: connections, Warmup: warmup, Window: window,
		}}
	}
	open := requests(openLoop, 200, 32)
	open.job.Rate, open.job.Window = 200, 2*window
	multiplexed := requests("200 B, 64 at once on one HTTP/2 connection", 200, 64)
	multiplexed.job.Together = 64
	messages := requests("200 B to Anthropic, 64 connections", 200, 64)
	messages.translated = true
	slow := func(name string, passes, streams int, interval time.Duration) scenario {
		return scenario{name: name, fresh: true, passes: passes, answer: profile{Interval: interval, ChunkBytes: 24},
			job: job{
				BodyBytes: 200, Connections: streams, Stream: true, Warmup: settle, Window: window,
			}}
	}
	paced := slow(pacedStreams, passes, 200, 40*time.Millisecond)
	paced.fresh = false
	many := slow(crowd, 1, 10_000, 4*time.Second)
	many.job.Together = 4
	translated := paced
	translated.name, translated.translated = translatedStreams, true
	light := func(s scenario) scenario {
		s.light = true
		return s
	}
	share := func(name string, bytes int) scenario {
		s := requests(name, bytes, 64)
		s.answer.AnswerBytes, s.light, s.share = bytes, true, true
		return s
	}
	return []scenario{
		slow(slowStreams, min(passes, 2), 2000, time.Second),
		many,
		light(requests(manySmall, 200, 64)),
		light(requests(oneSmall, 200, 1)),
		multiplexed,
		messages,
		light(requests(manyLarge, 20_000, 64)),
		requests("20 KB, 1 connection", 20_000, 1),
		requests("1 MB, 4 connections", 1_000_000, 4),
		share("1 KiB there and back, 64 connections", 1<<10),
		share("16 KiB there and back, 64 connections", 16<<10),
		open,
		paced,
		translated,
	}
}

// suits tells whether a scenario is measured on a target.
func (s scenario) suits(t *target) bool {
	switch t.name {
	case targetDirect:
		return s.share
	case targetLiteLLM:
		return s.light && !s.translated
	case targetPortkey:
		return !s.translated && s.job.Together == 0 // it has no HTTP/2
	}
	return !s.translated || t.translated != ""
}

// chosen returns the scenarios whose name contains one of the texts with "|" between them.
func chosen(all []scenario, what string) []scenario {
	texts := strings.Split(what, "|")
	return slices.DeleteFunc(all, func(s scenario) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(s.name, text) })
	})
}

// filesBeside are the open files that a proxy has whether or not there are streams.
const filesBeside = 200

// files returns how many files a proxy has open for the streams: the provider's connection of each, and the clients'.
func (j *job) files() uint64 {
	return uint64(j.Connections + j.Connections/max(1, j.Together))
}

// affordable returns the scenarios whose streams a process may hold with so many open files, and the others. What a
// target refuses beyond the limit would count as its failures.
func affordable(all []scenario, files uint64) (some, others []scenario) {
	for _, s := range all {
		if s.job.Stream && s.job.files()+filesBeside > files {
			others = append(others, s)
			continue
		}
		some = append(some, s)
	}
	return some, others
}
