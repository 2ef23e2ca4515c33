// Package envoygateway is an extension server of Envoy Gateway: rules of HTTPRoutes there lead to models. Envoy
// Gateway shows what it has translated for an Envoy. Marked rules become entry routes of a Gateway of ours, and the
// Envoy is given the filters, clusters and routes that an Envoy of ours has. They come from the same snapshot, so
// nothing is generated twice. What has no mark stays as it is.
//
// Envoy Gateway asks only when it translates by itself. A new developer will want to send a change to it: there is no
// way. So an annotation of the marked HTTPRoutes changes, which Envoy Gateway watches.
package envoygateway
