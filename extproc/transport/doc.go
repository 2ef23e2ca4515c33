// Package transport is a gRPC server for streams of many small messages. Envoy's ext_proc filter opens such a stream
// for each request.
//
// One goroutine serves a connection: it reads frames, calls the handlers of streams, and writes all answers to one
// read in one write. A stream has a goroutine only while its handler must wait. grpc-go has two goroutines for each
// stream, and passes each message between them and two goroutines of the connection. That was most of the cost of a
// small request.
//
// The protocol is HTTP/2 (RFC 9113) as gRPC uses it (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md),
// with flow control in both directions. Messages are not compressed.
package transport
