// Package controlplane connects the parts of the control plane: it follows the configuration in etcd, resolves its
// secrets, builds the resources of Envoy and the ext_proc service, and serves them over xDS.
//
// Nothing is served before the first complete configuration. A client keeps its configuration while it gets no answer,
// but drops it after an empty answer.
package controlplane
