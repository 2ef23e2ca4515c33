// Package ledgerv1 is the ledger as its writers and readers see it: the record of an exchange, and the service that
// keeps records.
//
// A record is sent at least once and counted once, by its id.
package ledgerv1
