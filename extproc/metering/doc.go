// Package metering measures an exchange: the demand of a request, the text whose tokens are counted, the usage in
// answers that pass unchanged, the tools that a vendor has run, the cost, and the record for the ledger, the log and
// the metrics.
//
// It makes no decisions: package exchange decides what follows from a demand.
package metering
