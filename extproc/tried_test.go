package extproc

import (
	"fmt"
	"testing"
	"time"

	accesslogdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/usage"
)

// kept is a spool in memory.
type kept struct {
	usage.Spool

	ended []*ledgerv1.Record
}

func (k *kept) End(r *ledgerv1.Record) { k.ended = append(k.ended, r) }

var begun = time.Unix(1700000000, 0)

// fellBack is an exchange whose first attempt, at a, was sent a while after its begin and failed within 5 ms.
func fellBack(id string, after time.Duration) metering.Record {
	sent := begun.Add(after)
	return metering.Record{ID: id, Start: begun, SentAt: sent, End: sent.Add(time.Second),
		FirstByte: sent.Add(time.Second),
		Provider:  "b", Attempts: 2, Status: 200, Answered: 200, Dispatched: true, Outcome: metering.OutcomeFinished,
		Tries: []metering.Try{{At: sent, Provider: "a", Upstream: "m-1", Cluster: "a/first"},
			{At: sent.Add(10 * time.Millisecond), Provider: "b", Upstream: "m-2", Cluster: "b/retry"}}}
}

// failedAt is Envoy's record of an attempt at a, with a reason of its own.
func failedAt(after time.Duration, why string) metering.Try {
	return triedOf(&accesslogdatav3.HTTPAccessLogEntry{CommonProperties: &accesslogdatav3.AccessLogCommon{
		UpstreamCluster: "a/first", StartTime: timestamppb.New(begun.Add(after)),
		Duration:                       durationpb.New(4 * time.Millisecond),
		UpstreamTransportFailureReason: why,
		ResponseFlags:                  &accesslogdatav3.ResponseFlags{UpstreamConnectionFailure: true}}})
}

func TestARecordWaitsForEnvoysRecordsOfItsAttempts(t *testing.T) {
	for name, early := range map[string]bool{"the attempt is told first": true, "the exchange ends first": false} {
		t.Run(name, func(t *testing.T) {
			j, logs := testJournal()
			spool := &kept{}
			j.spool = spool
			// Two exchanges at once: each gets the record that is nearest in time.
			tell := func() {
				j.attempt(failedAt(101*time.Millisecond, "second"))
				j.attempt(failedAt(time.Millisecond, "first"))
			}
			if early {
				tell()
			}
			j.exchange(fellBack("1", 0))
			j.exchange(fellBack("2", 100*time.Millisecond))
			if !early {
				require.Empty(t, spool.ended)
				require.Zero(t, logs.Len())
				tell()
			}
			require.Equal(t, 2, logs.Len())
			require.Len(t, spool.ended, 2, "each once")
			for _, e := range spool.ended {
				list := e.GetAttemptList()
				require.Len(t, list, 2)
				require.Equal(t, "connection failed: "+map[string]string{"1": "first", "2": "second"}[e.GetId()],
					list[0].GetError())
				require.EqualValues(t, 4, list[0].GetDurationMs())
				require.Equal(t, "fallback", list[1].GetKind())
				require.EqualValues(t, 200, list[1].GetStatus())
				require.EqualValues(t, 990, list[1].GetFirstByteMs())
				require.Empty(t, list[1].GetError())
			}
			j.sweep(begun.Add(time.Hour))
			require.Len(t, spool.ended, 2)
			require.EqualValues(t, 2, testutil.ToFloat64(j.metrics.tried.WithLabelValues("a", "failed")))
			require.EqualValues(t, 2, testutil.ToFloat64(j.metrics.tried.WithLabelValues("b", "served")))
			require.Equal(t, 2, testutil.CollectAndCount(j.metrics.tried))
		})
	}
}

// TestARecordDoesNotWaitForever holds that an attempt of which Envoy tells nothing is known to have failed.
func TestARecordDoesNotWaitForever(t *testing.T) {
	j, _ := testJournal()
	spool := &kept{}
	j.spool = spool
	j.exchange(fellBack("1", 0))
	j.attempt(failedAt(30*time.Minute, "of another"))
	j.sweep(begun.Add(time.Second))
	require.Empty(t, spool.ended)
	j.sweep(begun.Add(4 * time.Second))
	require.Len(t, spool.ended, 1)
	first := spool.ended[0].GetAttemptList()[0]
	require.Equal(t, "failed", first.GetError())
	require.EqualValues(t, 10, first.GetDurationMs())
}

func TestRememberedAttemptsAreBounded(t *testing.T) {
	j, _ := testJournal()
	for i := range 3 * maxTried {
		j.attempt(failedAt(time.Duration(i)*time.Second, ""))
	}
	require.LessOrEqual(t, len(j.tried.attempts), maxTried)
	for i := range maxHeld + 1 {
		j.exchange(fellBack(fmt.Sprint(i), -time.Hour))
	}
	require.LessOrEqual(t, len(j.tried.held), maxHeld)
}

// TestRefusedRequestsAreNotedWithinBounds holds that strangers cannot fill the ledger, nor use up what is for clients.
func TestRefusedRequestsAreNotedWithinBounds(t *testing.T) {
	j, _ := testJournal()
	spool := &kept{}
	j.refused = newRefusedRequests(prometheus.NewRegistry(), spool, "process-")
	refused := metering.Record{Outcome: metering.OutcomeRejected, Status: 401, RefusedBy: "unknown key", KeyHint: "cdef",
		Start: begun, End: begun, Error: &openai.Error{Code: openai.CodeInvalidAPIKey}}
	for range 10 * strangerBurst {
		j.exchange(refused)
	}
	require.Len(t, spool.ended, strangerBurst)
	require.EqualValues(t, 9*strangerBurst, testutil.ToFloat64(j.refused.leftOut.WithLabelValues("unknown")))
	ids := map[string]bool{}
	for _, e := range spool.ended {
		ids[e.GetId()] = true
		require.Equal(t, "cdef", e.GetKeyHint())
		require.Equal(t, "unknown key", e.GetRefusedBy())
		require.Equal(t, string(openai.CodeInvalidAPIKey), e.GetErrorCode())
		require.Zero(t, e.GetCostNanoUsd())
		require.Empty(t, envoy.ProviderOf(e.GetProvider()))
	}
	require.Len(t, ids, strangerBurst)
	j.refused.flush()
	require.Len(t, spool.ended, strangerBurst+1)
	rest := spool.ended[strangerBurst]
	require.NotContains(t, ids, rest.GetId())
	require.EqualValues(t, 9*strangerBurst, rest.GetRequests(), "the others are counted")
	require.Equal(t, []string{"cdef", "unknown key", string(openai.CodeInvalidAPIKey), "rejected"},
		[]string{rest.GetKeyHint(), rest.GetRefusedBy(), rest.GetErrorCode(), rest.GetOutcome()})
	spool.ended = spool.ended[:strangerBurst]

	limited := refused
	limited.ID, limited.Key, limited.RefusedBy = "1", "key_1", "key/key_1 limit requests per minute"
	j.exchange(limited)
	require.Len(t, spool.ended, strangerBurst+1, "clients have their own bound")
	internal := limited
	internal.Internal = true
	j.exchange(internal)
	require.Len(t, spool.ended, strangerBurst+1, "the job service sends its requests again")
}

// refusedRequest returns a request of a key that a rule has refused.
func refusedRequest(key, rule, model string) *metering.Record {
	r := &metering.Record{Outcome: metering.OutcomeRejected, Status: 429, RefusedBy: rule, Start: begun, End: begun,
		Error: &openai.Error{Code: openai.CodeRateLimitExceeded}}
	r.Key, r.Organization, r.Model = key, "of "+key, model
	return r
}

// A flood of one key hides no refusal of another, and each request is counted, whatever the flood asks for.
func TestARefusedRequestIsHiddenByNoFlood(t *testing.T) {
	spool := &kept{}
	n := newRefusedRequests(prometheus.NewRegistry(), spool, "process-")
	for i := range 300 {
		n.note(refusedRequest("key_flood", "key/key_flood limit requests per minute", "m"))
		if i%20 == 0 {
			n.note(refusedRequest("key_other", "policy office", "m"))
		}
	}
	rows := map[string]int{}
	for _, e := range spool.ended {
		rows[e.GetKey()]++
	}
	require.Equal(t, map[string]int{"key_flood": keyBurst, "key_other": 15}, rows, "rows of their own")
	for i := range 10 * maxCounts {
		n.note(refusedRequest(fmt.Sprint("key_", i), "key/key_flood limit tokens per minute", fmt.Sprint("model ", i)))
	}
	require.LessOrEqual(t, len(n.bursts), maxKeys)
	require.LessOrEqual(t, len(n.counts), 2*maxCounts+2)
	for i := range 10 * maxCounts {
		n.note(refusedRequest("", fmt.Sprint("rule ", i), ""))
	}
	require.LessOrEqual(t, len(n.counts), 2*maxCounts+4)
	n.flush()
	sums, ids := map[string]int64{}, map[string]bool{}
	for _, e := range spool.ended {
		sums[e.GetRefusedBy()] += max(e.GetRequests(), 1)
		ids[e.GetId()] = true
	}
	require.Len(t, ids, len(spool.ended))
	require.EqualValues(t, 300, sums["key/key_flood limit requests per minute"])
	require.EqualValues(t, 15, sums["policy office"])
	require.EqualValues(t, 10*maxCounts, sums["key/key_flood limit tokens per minute"])
	total := int64(0)
	for _, sum := range sums {
		total += sum
	}
	require.EqualValues(t, 300+15+20*maxCounts, total)
}
