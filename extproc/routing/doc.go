// Package routing decides where a request goes: it has the configured providers with their vendors' codecs, the models
// and who may use them, the plan of a request's attempts, the providers' bounds on concurrent requests, and the
// providers' cooldowns.
//
// A plan does not belong to the goroutine of its exchange: a retry arrives on another stream, and the first stream may
// end at any moment.
package routing
