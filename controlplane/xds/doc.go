// Package xds builds the resources of Envoy and the ext_proc service from the configuration: listeners, routes,
// clusters, secrets, the ext_proc filter, and the gateway's own resources. [Build] is a pure function: it has no
// clock, store or logger, and the same input gives the same bytes in the same order.
//
// A change of a listener drains its connections and finally cuts their streams. So a listener has only settings that
// hardly ever change. Everything else comes by RDS, CDS, SDS and ECDS.
package xds
