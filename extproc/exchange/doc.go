// Package exchange is what the gateway decides about one HTTP exchange: who may ask, which providers are tried in
// which order, what each of them is sent, and what the client sees of the answer. It is a state machine over decoded
// messages:
//
//	RequestHeaders -> RequestBody -> ResponseHeaders -> ResponseBody ... -> Close
//	      |                |               |
//	      +--- reply made here: nothing follows but Close
//
// The reply to an answer's headers may have to wait for what the body says, which comes nevertheless (see Duplex). It
// knows nothing of gRPC and holds no clock, so that the transport can change without it.
package exchange
