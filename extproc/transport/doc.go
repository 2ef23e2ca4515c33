// Package transport is a gRPC server for streams of many small messages, as Envoy's ext_proc filter opens one for each
// request.
//
// One goroutine serves a connection: it reads frames, calls the handlers of streams, and writes what they say in one
// write for all that came in one read. A stream has a goroutine only while its handler must wait. grpc-go has two
// goroutines for each stream and hands each message over between them and two more of the connection, which was most
// of what a small request cost.
//
// The protocol is HTTP/2 (RFC 9113) as gRPC uses it (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md),
// with flow control in both directions. There is no compression of messages.
package transport
