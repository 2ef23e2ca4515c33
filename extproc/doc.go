// Package extproc is the service beside each Envoy that authenticates, plans and translates: Envoy's external
// processor. One gRPC stream is one HTTP exchange; what is decided about it is in package exchange, and here is what
// carries it: the gRPC service, the configuration that comes over xDS, the access log. Package wire has the messages
// of the protocol, and package metering what an exchange uses and costs.
//
// A Process call must never return nil before Envoy has closed its side. Envoy takes the end
// of a stream with status OK for "go on without me", which lets a request pass unchecked.
package extproc
