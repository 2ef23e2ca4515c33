// Package kubernetes declares the configuration by objects of Kubernetes. One control plane, which holds a lock in
// etcd, watches them. It makes of each what a file would, by the same validation, approvals and audit log. What became
// of an object is in its conditions.
//
// One reconciler serves all kinds. A kind is what api/config/crd says of it, and no kind has code of its own but those
// whose objects have a secret. A new developer will want to write an object to etcd alone: they are written together,
// because each write reads the configuration whole.
package kubernetes
