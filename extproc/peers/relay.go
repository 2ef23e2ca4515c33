package peers

import (
	"slices"

	accesslogdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/transport"
	"github.com/modelgate/modelgate/extproc/wire"
)

// Handler returns the handler of the stream of an attempt. If another process has the plan, that one answers, and
// otherwise the handler that open returns.
func (p *Peers) Handler(stream *transport.Stream, open func() (transport.Handler, error)) transport.Handler {
	return &handler{peers: p, stream: stream, open: open}
}

type handler struct {
	peers  *Peers
	stream *transport.Stream
	open   func() (transport.Handler, error)
	here   transport.Handler // nil: the plan is elsewhere
}

// Message implements [transport.Handler].
func (h *handler) Message(b []byte, owned bool) (err error) {
	var in wire.Message
	if err := in.Decode(b); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	owner, elsewhere := h.peers.Owner(in.Request)
	if elsewhere {
		message := slices.Clone(b)
		return h.stream.Go(func() error {
			answer, err := h.peers.Ask(h.stream, owner, message)
			if err != nil {
				return status.Error(codes.Unavailable, err.Error())
			}
			return h.stream.Send(transport.Encoded(answer))
		})
	}
	if h.here, err = h.open(); err != nil {
		return err
	}
	return h.here.Message(b, owned)
}

// Close implements [transport.Handler].
func (h *handler) Close() error {
	if h.here == nil {
		return nil
	}
	return h.here.Close()
}

// Relay sends the records of a message of the access log to the processes that need them, and removes those that this
// one does not need. It does nothing if p is nil.
func (p *Peers) Relay(in *accesslogv3.StreamAccessLogsMessage, attempts bool) {
	if p == nil {
		return
	}
	entries := in.GetHttpLogs()
	if attempts {
		p.TellAll(messageOf(envoy.LogAttempts, entries.GetLogEntry()))
		return
	}
	entries.LogEntry = slices.DeleteFunc(entries.GetLogEntry(), func(e *accesslogdatav3.HTTPAccessLogEntry) bool {
		owner, elsewhere := p.Owner(ExchangeOf(e))
		if elsewhere {
			p.Tell(owner, messageOf(in.GetIdentifier().GetLogName(), []*accesslogdatav3.HTTPAccessLogEntry{e}))
		}
		return elsewhere
	})
}

// ExchangeOf returns the id of the exchange that a record belongs to. Empty: of none.
func ExchangeOf(e *accesslogdatav3.HTTPAccessLogEntry) string {
	mg := e.GetCommonProperties().GetMetadata().GetFilterMetadata()[envoy.Metadata].GetFields()
	return mg[envoy.MetadataRequest].GetStringValue()
}

func messageOf(log string, entries []*accesslogdatav3.HTTPAccessLogEntry) *accesslogv3.StreamAccessLogsMessage {
	return &accesslogv3.StreamAccessLogsMessage{
		Identifier: &accesslogv3.StreamAccessLogsMessage_Identifier{LogName: log},
		LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{
			HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: entries}},
	}
}
