package envoygateway

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A Table has the resources of one translation, for the Envoys of one Gateway of Envoy Gateway.
type Table struct {
	Clusters  []*clusterv3.Cluster
	Secrets   []*tlsv3.Secret
	Listeners []*listenerv3.Listener
	Routes    []*routev3.RouteConfiguration
}

// Numbers of the fields of PostTranslateModifyRequest, and of the response by their position. The request begins with
// a field that has the policies of extensions.
// https://github.com/envoyproxy/gateway/blob/v1.9.1/proto/extension/service.proto
const (
	requestClusters protowire.Number = iota + 2
	requestSecrets
	requestListeners
	requestRoutes
)

// Parse reads a PostTranslateModifyRequest. What it does not know is left out.
func Parse(request []byte) (*Table, error) {
	t := &Table{}
	for len(request) > 0 {
		number, kind, n := protowire.ConsumeTag(request)
		if n < 0 {
			return nil, fmt.Errorf("reading a request of Envoy Gateway: %w", protowire.ParseError(n))
		}
		request = request[n:]
		n = protowire.ConsumeFieldValue(number, kind, request)
		if n < 0 {
			return nil, fmt.Errorf("reading a request of Envoy Gateway: %w", protowire.ParseError(n))
		}
		if kind == protowire.BytesType {
			text, _ := protowire.ConsumeBytes(request)
			if err := t.add(number, text); err != nil {
				return nil, fmt.Errorf("reading field %d of a request of Envoy Gateway: %w", number, err)
			}
		}
		request = request[n:]
	}
	return t, nil
}

func (t *Table) add(number protowire.Number, text []byte) error {
	switch number {
	case requestClusters:
		return appendTo(&t.Clusters, &clusterv3.Cluster{}, text)
	case requestSecrets:
		return appendTo(&t.Secrets, &tlsv3.Secret{}, text)
	case requestListeners:
		return appendTo(&t.Listeners, &listenerv3.Listener{}, text)
	case requestRoutes:
		return appendTo(&t.Routes, &routev3.RouteConfiguration{}, text)
	}
	return nil
}

func appendTo[M proto.Message](list *[]M, empty M, text []byte) error {
	if err := proto.Unmarshal(text, empty); err != nil {
		return err
	}
	*list = append(*list, empty)
	return nil
}

// Response returns a PostTranslateModifyResponse, whose fields are those of the request without the first.
func (t *Table) Response() ([]byte, error) {
	var out []byte
	for _, err := range []error{
		write(&out, requestClusters-1, t.Clusters),
		write(&out, requestSecrets-1, t.Secrets),
		write(&out, requestListeners-1, t.Listeners),
		write(&out, requestRoutes-1, t.Routes),
	} {
		if err != nil {
			return nil, fmt.Errorf("writing a response to Envoy Gateway: %w", err)
		}
	}
	return out, nil
}

func write[M proto.Message](to *[]byte, number protowire.Number, list []M) error {
	for _, m := range list {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			return err
		}
		*to = protowire.AppendBytes(protowire.AppendTag(*to, number, protowire.BytesType), text)
	}
	return nil
}
