// Package snapshot publishes the built configuration to Envoy, the ext_proc service and the job service over delta
// ADS. The order ensures that no request is planned to a cluster that Envoy does not have. It withdraws content that a
// client refuses. Keys have a separate cache, which waits for nothing.
//
// After Envoy has refused a response, it may have lost the valid resources in it too, while the server believes that
// they were delivered. So every resource has a version with an epoch. A refusal raises the epoch, and the valid
// resources are sent again. The refused content is not sent again, because that would never end.
package snapshot
