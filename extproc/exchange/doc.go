// Package exchange decides everything about one HTTP exchange: who may send it, which providers are tried in which
// order, what each provider is sent, and which answer the client gets. It is a state machine over decoded messages:
//
//	RequestHeaders -> RequestBody -> ResponseHeaders -> ResponseBody ... -> Close
//	      |                |               |
//	      +--- reply made here: nothing follows but Close
//
// The reply to an answer's headers may wait for the answer's body, which arrives before the reply (see Duplex). The
// package knows nothing of gRPC and has no clock, so the transport can change without it.
package exchange
