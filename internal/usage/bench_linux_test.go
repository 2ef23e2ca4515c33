package usage_test

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/internal/testenv"
)

// BenchmarkBeginAndEnd is what the spool takes of the CPU for a request, with its syncing, by how many come at once on
// each core.
func BenchmarkBeginAndEnd(b *testing.B) {
	for _, streams := range []int{1, 16} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			s := open(b, options(b.TempDir()))
			at := time.Date(2026, 3, 10, 12, 30, 0, 123456789, time.UTC)
			request := &ledgerv1.Record{RequestId: "7b0e3c52-9d7f-4c1b-8a58-0c1f4b0e9a11", Start: timestamppb.New(at),
				Key: "key_00000042", Organization: "an organization", Project: "a project", User: "user-42",
				Operation: "chat/completions", Model: "gpt-5-mini", Provider: "openai", UpstreamModel: "gpt-5-mini-2026-01-01",
				Attempts: 1, Stream: true, Status: 200, Outcome: "finished", FirstByteMs: 250, InputTokens: 1234,
				CachedTokens: 1024, OutputTokens: 567, CostNanoUsd: 1_234_567, Priced: true, PriceVersion: "0123456789ab"}
			var made atomic.Uint64
			b.SetParallelism(streams)
			b.ReportAllocs()
			begun := testenv.CPU(b)
			b.RunParallel(func(pb *testing.PB) {
				r := proto.CloneOf(request)
				for pb.Next() {
					r.Id, r.End = "6f1d0a9b2c3e-"+strconv.FormatUint(made.Add(1), 36), nil
					s.Begin(r)
					r.End = request.Start
					s.End(r)
				}
			})
			b.ReportMetric(float64((testenv.CPU(b)-begun).Nanoseconds())/1e3/float64(b.N), "cpu-µs/request")
		})
	}
}
