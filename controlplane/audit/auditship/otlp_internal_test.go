package auditship

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// collector serves OTLP/HTTP. It takes what answer does not refuse.
func collector(t *testing.T, k *taker, answer func(n int32) (int, int64)) *httptest.Server {
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var asked collogspb.ExportLogsServiceRequest
		if err != nil || r.URL.Path != "/base/v1/logs" || r.Header.Get("Content-Type") != "application/x-protobuf" ||
			r.Header.Get("Authorization") != "Bearer collector" || proto.Unmarshal(body, &asked) != nil {
			t.Errorf("a bad request: %s %v", r.URL, r.Header)
		}
		status, rejected := answer(n.Add(1))
		if status == http.StatusOK && rejected == 0 {
			for _, record := range asked.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords() {
				var e adminapi.AuditEntry
				if err := json.Unmarshal([]byte(record.GetBody().GetStringValue()), &e); err != nil {
					t.Error(err)
				}
				has := map[string]*commonpb.AnyValue{}
				for _, a := range record.GetAttributes() {
					has[a.GetKey()] = a.GetValue()
				}
				if has["modelgate.audit.sequence"].GetIntValue() != e.Sequence ||
					has["modelgate.audit.hash"].GetStringValue() != e.Hash ||
					record.GetTimeUnixNano() != uint64(e.At.UnixNano()) { //nolint:gosec // after 1970
					t.Errorf("%v is not of %v", record, e)
				}
				k.take(e)
			}
		}
		said, _ := proto.Marshal(&collogspb.ExportLogsServiceResponse{PartialSuccess: &collogspb.ExportLogsPartialSuccess{
			RejectedLogRecords: rejected}})
		rw.WriteHeader(status)
		_, _ = rw.Write(said)
	}))
	t.Cleanup(server.Close)
	return server
}

func toOtlp(url string) *configv1.AuditSink {
	return &configv1.AuditSink{Name: "otel", Otlp: &configv1.AuditOtlp{Endpoint: url + "/base"},
		Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "Bearer collector"}}}
}

func TestACollectorGetsRecords(t *testing.T) {
	var k taker
	server := collector(t, &k, func(n int32) (int, int64) {
		switch n % 3 {
		case 1:
			return http.StatusServiceUnavailable, 0
		case 2:
			return http.StatusOK, 1
		}
		return http.StatusOK, 0
	})
	w := newWorld(t, toOtlp(server.URL))
	w.write(700)
	s := w.service()
	w.run(s)
	w.delivered(s, "otel")
	w.requireAll(&k)
}

func TestACollectorThatHasNotTakenABatch(t *testing.T) {
	var k taker
	w := newWorld(t)
	w.write(3)
	s := w.service()
	b, err := (&follower{Service: s}).read(t.Context())
	require.NoError(t, err)
	for says, c := range map[string]func(int32) (int, int64){
		"it answered with status 401": func(int32) (int, int64) { return http.StatusUnauthorized, 0 },
		"it rejected 2 of 3 records":  func(int32) (int, int64) { return http.StatusOK, 2 },
	} {
		require.Equal(t, says, s.sender.send(t.Context(), toOtlp(collector(t, &k, c).URL), b).says)
	}
	page := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = rw.Write([]byte("<html>"))
	}))
	defer page.Close()
	require.Equal(t, "its answer is not one of OTLP", s.sender.send(t.Context(), toOtlp(page.URL), b).says)
	require.Equal(t, "it cannot be reached", s.sender.send(t.Context(), toOtlp("http://127.0.0.1:1"), b).says)
}
