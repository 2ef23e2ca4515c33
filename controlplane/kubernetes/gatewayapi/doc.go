// Package gatewayapi makes configuration of objects of Kubernetes' Gateway API: Gateways and Certificates of its
// listeners, Routes and Models of its HTTPRoutes. It is pure: it gets all that there is, and returns what is to be
// stored and what each object is to say of itself.
//
// What this gateway cannot do is a condition that names the field. So a level of an object knows which of its fields
// were read, and the others are refused. A new developer will want to look into an object past its level, and then
// nobody is told that a field has no effect.
package gatewayapi
