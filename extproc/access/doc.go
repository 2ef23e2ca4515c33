// Package access knows who may ask, and how often: the keys and the tenants whom they belong to, the limits and
// budgets that hold for a request as rules, what a client is told of them, and what this process remembers of refusals
// so that it need not ask again.
package access
