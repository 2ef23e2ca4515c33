package xds

import (
	"time"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/modelgate/modelgate/envoy"
)

// Names of the ext_proc filters: of a gateway's listener, of the job service's listener, and of retry clusters.
const (
	extProcFilter         = "mg.ext_proc.drains"
	internalExtProcFilter = "mg.ext_proc.internal"
	retryExtProcFilter    = "mg.up"
)

// messageTimeout bounds the time of the ext_proc service for one message. Envoy's default of 200 ms is shorter than a
// pause of a loaded machine.
const messageTimeout = 10 * time.Second

// extProc returns the filter of every gateway's listener as an extension configuration, so that its options change
// without draining a listener.
func (b *builder) extProc() ([]Resource, error) {
	return []Resource{extProcResource(extProcFilter, gatewayExtProc())}, nil
}

// gatewayExtProc returns the filter of a gateway's listener, which holds requests.
func gatewayExtProc() *extprocv3.ExternalProcessor {
	filter := downstreamExtProc(envoy.RoleDownstream)
	filter.AllowedOverrideModes = append(filter.AllowedOverrideModes, drainingMode(), sessionMode())
	return filter
}

func extProcResource(name string, filter *extprocv3.ExternalProcessor) Resource {
	return Resource{Role: envoy.RoleEnvoy, Name: name, Message: &corev3.TypedExtensionConfig{Name: name,
		TypedConfig: pack(filter)}}
}

// downstreamExtProc sees each request once. The response phase is off until the ext_proc service turns it on, so that
// a local reply before the request was decoded never opens a stream. In the duplex mode no message timeout runs,
// because the headers of an answer may wait for minutes while the provider is silent.
func downstreamExtProc(role string) *extprocv3.ExternalProcessor {
	const (
		streamed = extprocv3.ProcessingMode_STREAMED
		duplex   = extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED
		buffered = extprocv3.ProcessingMode_BUFFERED
		none     = extprocv3.ProcessingMode_NONE
		send     = extprocv3.ProcessingMode_SEND
		skip     = extprocv3.ProcessingMode_SKIP
	)
	return &extprocv3.ExternalProcessor{
		GrpcService:       extProcService(role),
		StatusOnError:     &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		MessageTimeout:    durationpb.New(messageTimeout),
		MaxMessageTimeout: durationpb.New(envoy.LongestWait),
		ProcessingMode:    processingMode(send, buffered, skip, none),
		AllowModeOverride: true,
		AllowedOverrideModes: []*extprocv3.ProcessingMode{
			processingMode(send, buffered, send, duplex),
			processingMode(send, buffered, send, streamed),
			processingMode(send, buffered, send, none),
			processingMode(send, buffered, send, buffered),
			processingMode(send, none, send, none),
			processingMode(send, none, send, streamed),
			processingMode(send, none, skip, none),
		},
		// The answer to a duplex body sets its length.
		AllowContentLengthHeader: true,
		MutationRules: &mutationv3.HeaderMutationRules{
			AllowAllRouting: wrapperspb.Bool(true),
			AllowEnvoy:      wrapperspb.Bool(true),
			DisallowIsError: wrapperspb.Bool(true),
		},
		MetadataOptions: &extprocv3.MetadataOptions{ReceivingNamespaces: &extprocv3.MetadataOptions_MetadataNamespaces{
			Untyped: []string{envoy.Metadata, envoy.MetadataPlan}, Typed: []string{envoy.MetadataPlan}}},
		// Each costs 8 thousand instructions a request.
		ResponseAttributes: []string{envoy.AttributeAttempt, envoy.AttributeCodeDetails},
	}
}

// upstreamExtProc sees the headers of each attempt after the first, and replaces the request.
func upstreamExtProc() *extprocv3.ExternalProcessor {
	return &extprocv3.ExternalProcessor{
		GrpcService:    extProcService(envoy.RoleUpstream),
		StatusOnError:  &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		MessageTimeout: durationpb.New(messageTimeout),
		ProcessingMode: processingMode(extprocv3.ProcessingMode_SEND, extprocv3.ProcessingMode_NONE,
			extprocv3.ProcessingMode_SKIP, extprocv3.ProcessingMode_NONE),
		ForwardRules: &extprocv3.HeaderForwardingRules{AllowedHeaders: &matcherv3.ListStringMatcher{
			Patterns: []*matcherv3.StringMatcher{exactly("content-type")},
		}},
		RequestAttributes: []string{envoy.AttributeClusterName, envoy.AttributeAttempt},
		MutationRules: &mutationv3.HeaderMutationRules{
			AllowAllRouting: wrapperspb.Bool(true),
			DisallowIsError: wrapperspb.Bool(true),
		},
		MetadataOptions: &extprocv3.MetadataOptions{
			ForwardingNamespaces: namespaces(envoy.Metadata), // identifies the attempt
			ReceivingNamespaces:  namespaces(envoy.Metadata),
		},
	}
}

// processingMode sets the trailer modes explicitly. Envoy compares an override with the allowed modes. An override has
// SKIP, and a mode with the default would never match. Envoy requires the trailers of a duplex body, which end it.
func processingMode(requestHeaders extprocv3.ProcessingMode_HeaderSendMode,
	requestBody extprocv3.ProcessingMode_BodySendMode,
	responseHeaders extprocv3.ProcessingMode_HeaderSendMode, responseBody extprocv3.ProcessingMode_BodySendMode,
) *extprocv3.ProcessingMode {
	trailers := extprocv3.ProcessingMode_SKIP
	if responseBody == extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED {
		trailers = extprocv3.ProcessingMode_SEND
	}
	return &extprocv3.ProcessingMode{
		RequestHeaderMode:   requestHeaders,
		RequestBodyMode:     requestBody,
		RequestTrailerMode:  extprocv3.ProcessingMode_SKIP,
		ResponseHeaderMode:  responseHeaders,
		ResponseBodyMode:    responseBody,
		ResponseTrailerMode: trailers,
	}
}

// drainingMode is the mode of a refused request, whose answer waits for the end of the body. Trailers end the body
// too.
func drainingMode() *extprocv3.ProcessingMode {
	m := processingMode(extprocv3.ProcessingMode_SEND, extprocv3.ProcessingMode_STREAMED, extprocv3.ProcessingMode_SKIP,
		extprocv3.ProcessingMode_NONE)
	m.RequestTrailerMode = extprocv3.ProcessingMode_SEND
	return m
}

// extProcService returns the ext_proc service beside Envoy. The role is the stream's authority, which clients cannot
// forge.
func extProcService(role string) *corev3.GrpcService {
	service := &corev3.GrpcService_EnvoyGrpc{ClusterName: envoy.ClusterExtProc, SkipEnvoyHeaders: true}
	if role != envoy.RoleDownstream {
		service.Authority = role
	}
	return &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: service}}
}

func namespaces(names ...string) *extprocv3.MetadataOptions_MetadataNamespaces {
	return &extprocv3.MetadataOptions_MetadataNamespaces{Untyped: names}
}

func exactly(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
}
