// Package xds builds what Envoy and the ext_proc service run from the configuration: listeners, routes, clusters,
// secrets, the ext_proc filter, and resources of our own. [Build] is a pure function: no clock, no store, no logger,
// and the same input gives the same bytes in the same order.
//
// A change of a listener drains its connections and in the end cuts their streams. So a
// listener holds only what hardly ever changes, and everything else comes by RDS, CDS, SDS and ECDS.
package xds
