package extproc

import (
	"context"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	accesslogdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/provider/all"
)

// refusal is Envoy's record of an attempt.
func refusal(cluster string, status uint32, headers map[string]string) *accesslogdatav3.HTTPAccessLogEntry {
	return &accesslogdatav3.HTTPAccessLogEntry{
		CommonProperties: &accesslogdatav3.AccessLogCommon{UpstreamCluster: cluster},
		Response: &accesslogdatav3.HTTPResponseProperties{ResponseCode: wrapperspb.UInt32(status),
			ResponseHeaders: headers},
	}
}

func TestRefusedAttemptsOfEnvoysLogCoolTheirProvider(t *testing.T) {
	p, err := routing.NewProvider(resolved("busy", "openai"), all.Providers()["openai"])
	require.NoError(t, err)
	core, logs := observer.New(zap.InfoLevel)
	server := newServer(t, &exchange.Config{
		Table: routing.Table{Providers: map[string]*routing.Provider{"busy": p}},
	}, zap.New(core))
	now := time.Unix(1700000000, 0)
	server.env.Now = func() time.Time { return now }
	cooling := func() float64 { return gauge(t, newProviderCollector(server), "modelgate_provider_cooling") }
	client := accesslogv3.NewAccessLogServiceClient(serve(t, server))

	// send gives the server entries of a log, of which the first message names it, and waits until they are taken.
	send := func(log string, entries ...*accesslogdatav3.HTTPAccessLogEntry) {
		t.Helper()
		stream, err := client.StreamAccessLogs(context.Background())
		require.NoError(t, err)
		for i, e := range entries {
			m := &accesslogv3.StreamAccessLogsMessage{LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{
				HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{
					LogEntry: []*accesslogdatav3.HTTPAccessLogEntry{e}}}}
			if i == 0 {
				m.Identifier = &accesslogv3.StreamAccessLogsMessage_Identifier{LogName: log}
			}
			require.NoError(t, stream.Send(m))
		}
		_, err = stream.CloseAndRecv()
		require.NoError(t, err)
	}
	late := map[string]string{"retry-after": "30"}

	send(envoy.LogRequests, refusal("busy/first", 429, late))
	require.Zero(t, server.env.Cooldown.Until(p, now), "a request's own record says nothing of an attempt")
	require.Equal(t, 1, logs.FilterMessage("request").Len())

	send(envoy.LogAttempts, refusal("elsewhere/first", 429, late), refusal("extproc", 429, late),
		refusal("busy/first", 503, nil))
	require.Zero(t, cooling())

	send(envoy.LogAttempts, refusal("elsewhere/first", 429, late), refusal("busy/retry", 503, late))
	require.Equal(t, now.Add(30*time.Second), server.env.Cooldown.Until(p, now))
	require.EqualValues(t, 1, cooling())
	require.Equal(t, 1, logs.FilterMessage("request").Len(), "an attempt is no request")
	now = now.Add(30 * time.Second)
	require.Zero(t, cooling())

	send(envoy.LogAttempts, refusal("busy/first", 429, map[string]string{"retry-after-ms": "1500", "retry-after": "9"}))
	require.Equal(t, now.Add(1500*time.Millisecond), server.env.Cooldown.Until(p, now))
	require.EqualValues(t, 2, testutil.ToFloat64(server.refusals.WithLabelValues("busy", "503")))
	require.EqualValues(t, 1, testutil.ToFloat64(server.refusals.WithLabelValues("busy", "429")))
	require.Equal(t, 2, testutil.CollectAndCount(server.refusals), "none of what is no provider")

	list, chat := refusal("busy/first", 404, nil), refusal("busy/first", 500, nil)
	list.Request = &accesslogdatav3.HTTPRequestProperties{RequestMethod: corev3.RequestMethod_GET}
	chat.Request = &accesslogdatav3.HTTPRequestProperties{RequestMethod: corev3.RequestMethod_POST}
	send(envoy.LogAttempts, list, chat)
	require.Len(t, server.journal.tried.attempts, 1, "a list of models is no attempt of an exchange")
	require.Equal(t, 500, server.journal.tried.attempts[0].Status)
}

// gauge returns the only sample of a metric that a collector has.
func gauge(t *testing.T, c prometheus.Collector, name string) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	require.NoError(t, r.Register(c))
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			require.Len(t, f.GetMetric(), 1)
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("%s is not there", name)
	return 0
}
