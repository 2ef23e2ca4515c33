package auditship

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/webhook"
)

const (
	otlpPath = "v1/logs"
	// maxAnswer bounds the bytes that are read of a collector's answer.
	maxAnswer = 64 << 10
)

// otlp sends a batch as log records over OTLP/HTTP, as binary protobuf, which every collector takes. A collector that
// rejects some of the records has not taken the batch.
func (s *sender) otlp(ctx context.Context, to *configv1.AuditOtlp, credential secret.Value, b batch) result {
	invalid := posted(webhook.Result{Outcome: webhook.Unsigned})
	at, err := url.JoinPath(to.GetEndpoint(), otlpPath)
	if err != nil {
		return invalid
	}
	body, err := proto.Marshal(otlpRequest(b))
	if err != nil {
		return result{says: "the entries cannot be written as OTLP"}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return invalid
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "Modelgate-Audit")
	if value := credential.Reveal(); value != "" {
		r.Header.Set("Authorization", value)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return broken(err)
	}
	defer func() { _ = answer.Body.Close() }() // what matters of it is read
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return posted(webhook.Result{Outcome: webhook.Refused, Status: answer.StatusCode,
			After: provider.RetryAfter(answer.Header)})
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return broken(err)
	}
	var said collogspb.ExportLogsServiceResponse
	if err := proto.Unmarshal(text, &said); err != nil {
		return result{says: "its answer is not one of OTLP"}
	}
	if n := said.GetPartialSuccess().GetRejectedLogRecords(); n > 0 {
		return result{says: fmt.Sprintf("it rejected %d of %d records", n, len(b.items))}
	}
	return result{}
}

func otlpRequest(b batch) *collogspb.ExportLogsServiceRequest {
	records := make([]*logspb.LogRecord, len(b.items))
	for i, item := range b.items {
		at := uint64(item.At.UnixNano()) //nolint:gosec // after 1970
		records[i] = &logspb.LogRecord{TimeUnixNano: at, ObservedTimeUnixNano: at, EventName: "modelgate.audit",
			SeverityNumber: logspb.SeverityNumber_SEVERITY_NUMBER_INFO, SeverityText: "INFO",
			Body: textOf(string(item.json)), Attributes: attributesOf(item)}
	}
	return &collogspb.ExportLogsServiceRequest{ResourceLogs: []*logspb.ResourceLogs{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			{Key: "service.name", Value: textOf("modelgate-controlplane")}}},
		ScopeLogs: []*logspb.ScopeLogs{{Scope: &commonpb.InstrumentationScope{Name: "modelgate.audit"},
			LogRecords: records}},
	}}}
}

func attributesOf(i item) []*commonpb.KeyValue {
	var all []*commonpb.KeyValue
	for _, p := range [][2]string{{"id", i.ID}, {"hash", i.Hash}, {"previous", i.Previous}, {"actor", i.Actor},
		{"action", i.Action}, {"kind", i.Kind}, {"name", i.Name}} {
		if p[1] != "" {
			all = append(all, &commonpb.KeyValue{Key: "modelgate.audit." + p[0], Value: textOf(p[1])})
		}
	}
	if i.Sequence > 0 {
		all = append(all, &commonpb.KeyValue{Key: "modelgate.audit.sequence",
			Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: i.Sequence}}})
	}
	return all
}

func textOf(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
}
