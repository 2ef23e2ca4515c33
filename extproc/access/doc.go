// Package access decides which clients may send requests, and how many: it has the keys and their tenants, the limits
// and budgets of a request as rules, the errors and headers about limits, and a cache of recent refusals that saves
// calls to the store of limits.
package access
