// Package controlplane ties the control plane together: it follows the configuration in etcd, resolves its secrets,
// builds what Envoy and the ext_proc service run from it, and serves that over xDS.
//
// Nothing is served before the first complete configuration. A client that is told nothing
// keeps what it has; one that is told there is nothing throws it away.
package controlplane
