// Package configv1 is Modelgate's configuration: the objects that an operator writes, how they are read from YAML and
// JSON, what their absent fields mean, and when they are valid. The messages are generated from the .proto files
// beside this one; their doc comments are the reference of every field.
//
// Documents are not read by protojson, which stops at the first thing that does not fit and shows its value, which may
// be a secret: here all that is wrong is told at once, each with its line and column.
//
// Defaults are never stored. An absent field stays absent in etcd and in what the admin API
// shows, and whoever acts on it asks the method that knows the default, such as [Gateway.ListenAddress].
package configv1
