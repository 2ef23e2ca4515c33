// Package snapshot publishes built configuration to Envoy, to the ext_proc service and to the job service over delta
// ADS, in an order in which no request is planned to a cluster that Envoy does not have, and takes back what a client
// refuses. Keys go a way of their own, which waits for nothing.
//
// After Envoy refuses a response it may have lost the valid resources in it too, while the
// server believes them delivered. So every resource has a version with an epoch, which a refusal raises: the siblings
// are sent again. The refused content is not, or that would never end.
package snapshot
