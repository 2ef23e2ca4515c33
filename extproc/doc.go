// Package extproc is the service beside each Envoy that authenticates, plans and translates: Envoy's external
// processor. One gRPC stream is one HTTP exchange. Package exchange makes the decisions. This package has the gRPC
// service, the configuration from xDS, and the access log. Package wire has the messages of the protocol, and package
// metering the usage and cost of an exchange.
//
// A Process call must never return nil before Envoy has closed its side. For Envoy, the end of a stream with status OK
// means "continue without me", and the request passes unchecked.
package extproc
