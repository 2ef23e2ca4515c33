package extproctest

import (
	"context"
	"errors"
	"net/http"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	accesslogdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/modelgate/modelgate/envoy"
)

// Who ended a request early.
var (
	errClient   = errors.New("the client has left")
	errProvider = errors.New("the provider's connection broke")
)

// record sends Envoy's record of a request that has ended, if the access log's filter selects it.
func (x *exchange) record(err error) {
	flags := &accesslogdatav3.ResponseFlags{
		DownstreamConnectionTermination: errors.Is(err, errClient),
		UpstreamConnectionTermination:   errors.Is(err, errProvider),
		NoHealthyUpstream:               errors.As(err, new(errGateway)),
	}
	code := wrapperspb.UInt32(http.StatusOK)
	if flags.GetNoHealthyUpstream() {
		code = wrapperspb.UInt32(http.StatusServiceUnavailable)
	}
	flagged := flags.GetDownstreamConnectionTermination() || flags.GetUpstreamConnectionTermination() ||
		flags.GetNoHealthyUpstream()
	if !flagged && x.metadata(envoy.MetadataLog) == "" {
		return
	}
	// The request's own context has ended if the client has left.
	stream, err := x.envoy.log.StreamAccessLogs(context.WithoutCancel(x.ctx))
	if err != nil {
		return
	}
	_ = stream.Send(&accesslogv3.StreamAccessLogsMessage{LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: []*accesslogdatav3.HTTPAccessLogEntry{{
			CommonProperties: &accesslogdatav3.AccessLogCommon{ResponseFlags: flags,
				Metadata: &corev3.Metadata{FilterMetadata: x.meta}},
			Response: &accesslogdatav3.HTTPResponseProperties{ResponseBodyBytes: uint64(x.sent), ResponseCode: code},
		}}},
	}})
	_, _ = stream.CloseAndRecv()
}
