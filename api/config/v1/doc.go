// Package configv1 is Modelgate's configuration: the objects that an operator writes, how they are read from YAML and
// JSON, the defaults of absent fields, and their validation. The messages are generated from the .proto files beside
// this one. Their doc comments are the reference of every field.
//
// Documents are not read by protojson, which stops at the first error and shows the value, which may be a secret. This
// package reports all errors at once, each with its line and column.
//
// Defaults are never stored. An absent field stays absent in etcd and in the admin API. Code that needs the value
// calls the method with the default, such as [Gateway.ListenAddress].
//
//go:generate go run gendocs.go ../../../docs/threat-model.md
package configv1
