// Package routing knows where a request can go: the configured providers with their vendors' codecs, the models and
// who may use them, the plan of a request's attempts, the places that providers have for requests, and which of them
// have asked to be left alone.
//
// A plan does not belong to the goroutine of its exchange: a retry arrives on another stream, while the first one may
// end at any moment.
package routing
