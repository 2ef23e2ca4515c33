package extproc

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	accesslogdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/telemetry"
)

func testJournal() (*journal, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	return newJournal(zap.New(core), newMetrics(prometheus.NewRegistry(), nil), newSampler(prometheus.NewRegistry()), nil,
		"p-"), logs
}

func entry(id, details string, flags *accesslogdatav3.ResponseFlags) *accesslogdatav3.HTTPAccessLogEntry {
	e := &accesslogdatav3.HTTPAccessLogEntry{
		CommonProperties: &accesslogdatav3.AccessLogCommon{ResponseFlags: flags},
		Request:          &accesslogdatav3.HTTPRequestProperties{Path: "/v1/x?secret=1"},
		Response:         &accesslogdatav3.HTTPResponseProperties{ResponseCodeDetails: details, ResponseBodyBytes: 7},
	}
	if id != "" {
		s, _ := structpb.NewStruct(map[string]any{"rid": id})
		e.CommonProperties.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"mg": s}}
	}
	return e
}

func TestJournalJoinsTheTwoRecordsOfARequest(t *testing.T) {
	client := &accesslogdatav3.ResponseFlags{DownstreamConnectionTermination: true}
	provider := &accesslogdatav3.ResponseFlags{UpstreamRemoteReset: true}
	for _, c := range []struct {
		name    string
		outcome metering.Outcome
		unseen  bool
		flags   *accesslogdatav3.ResponseFlags
		want    string
		cutBy   string
	}{
		{"the client left", metering.OutcomeCut, false, client, "cancelled", "client"},
		{"the provider broke off", metering.OutcomeCut, false, provider, "truncated", "provider"},
		{"nobody knows", metering.OutcomeCut, false, nil, "cut", ""},
		{"Envoy answered", metering.OutcomeGateway, false, provider, "gateway", "provider"},
		{"an answer that was not seen is complete", metering.OutcomeFinished, true, nil, "finished", ""},
		{"the client left one", metering.OutcomeFinished, true, client, "cancelled", "client"},
		{"the provider broke one off", metering.OutcomeFinished, true, provider, "truncated", "provider"},
		{"an error that was not seen", metering.OutcomeFailed, true, nil, "failed", ""},
	} {
		for order, envoyFirst := range map[string]bool{"the exchange's first": false, "Envoy's first": true} {
			t.Run(c.name+", "+order, func(t *testing.T) {
				j, logs := testJournal()
				r := metering.Record{ID: "p-1", Subject: request.Subject{Key: "key_1"}, Provider: "a",
					Operation: "completions", Outcome: c.outcome, Unseen: c.unseen, Status: 200,
					Usage: openai.Usage{PromptTokens: 3}}
				e := entry("p-1", "", c.flags)
				if envoyFirst {
					j.envoy(e)
					require.Zero(t, logs.Len())
					j.exchange(r)
				} else {
					j.exchange(r)
					require.Zero(t, logs.Len())
					j.envoy(e)
				}
				require.Equal(t, 1, logs.Len())
				line := logs.All()[0].ContextMap()
				require.Equal(t, "key_1", line["key_id"])
				require.Equal(t, "completions", line["operation"])
				require.Equal(t, c.want, line["outcome"])
				require.Equal(t, c.cutBy, line["cut_by"])
				require.EqualValues(t, 7, line["bytes_sent"])
				require.EqualValues(t, 3, line["prompt_tokens"], "what was seen of the usage")
				for counter, want := range map[prometheus.Counter]float64{
					j.metrics.requests.WithLabelValues("a", "completions", c.want, "2xx"): 1,
					j.metrics.tokens.WithLabelValues("a", "completions", "prompt"):        3,
				} {
					var counted dto.Metric
					require.NoError(t, counter.Write(&counted))
					require.EqualValues(t, want, counted.GetCounter().GetValue())
				}
				require.Empty(t, j.records)
				require.Empty(t, j.entries)
			})
		}
	}
}

func TestJournalWritesWhatHasNoOtherHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, logs := testJournal()
		go j.run(t.Context())
		j.exchange(metering.Record{ID: "p-1", Outcome: metering.OutcomeFinished})
		require.Equal(t, 1, logs.Len(), "complete: nothing to wait for")
		j.envoy(entry("p-1", "via_upstream", &accesslogdatav3.ResponseFlags{DownstreamConnectionTermination: true}))
		j.envoy(entry("", "request_payload_too_large", nil))
		require.Equal(t, 2, logs.Len(), "Envoy refused it alone")
		require.Equal(t, "/v1/x", logs.All()[1].ContextMap()["path"], "without the query")
		j.envoy(entry("q-1", "ext_proc_error", nil))
		require.Equal(t, 3, logs.Len(), "of a process that is gone")

		j.exchange(metering.Record{ID: "p-2", Outcome: metering.OutcomeCut, End: time.Now()})
		require.Equal(t, 3, logs.Len())
		<-time.After(2 * flushWait)
		synctest.Wait()
		require.Equal(t, 4, logs.Len(), "Envoy's half was lost; that of p-1 adds nothing")
		require.Empty(t, j.entries)
	})
}

// TestLinesOfStrangersAreFewAndShort holds that a flood of requests without a good key costs little room: what a
// stranger wrote is clipped, and beyond a number of lines there is only a count.
func TestLinesOfStrangersAreFewAndShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, logs := testJournal()
		long := strings.Repeat("x", 30_000)
		refused := func() {
			j.exchange(metering.Record{RequestID: long, Method: long, Path: "/v1/" + long, Outcome: metering.OutcomeRejected,
				Status: 401, Start: time.Now(), End: time.Now(),
				Error: &openai.Error{Type: "invalid_request_error", Code: "invalid_api_key"}})
		}
		for range 5000 {
			refused()
			e := entry("", "http1.codec_error", nil)
			e.Request.Path, e.Request.RequestId = "/"+long, long
			j.envoy(e)
		}
		require.Equal(t, lineBurst, logs.Len())
		for _, l := range logs.All() {
			for name, value := range l.ContextMap() {
				require.LessOrEqual(t, len(fmt.Sprint(value)), telemetry.MaxText+len("…"), name)
			}
		}
		logs.TakeAll()

		j.exchange(metering.Record{Subject: request.Subject{Key: "key_1"}, Outcome: metering.OutcomeRejected,
			Start: time.Now(), End: time.Now()})
		require.Equal(t, 1, logs.Len(), "one whose key is known has its line")
		logs.TakeAll()

		j.sampler.report(j.log, time.Now())
		require.Equal(t, int64(10_000-lineBurst), logs.TakeAll()[0].ContextMap()["left_out"])
		j.sampler.report(j.log, time.Now())
		require.Zero(t, logs.Len(), "nothing was left out since")

		<-time.After(time.Second)
		refused()
		require.Equal(t, 1, logs.Len(), "after a second there is room again")
	})
}
