// Package metering knows what a request may use, what its answer has used and what that costs: the demand of a
// request, the text that an answer's tokens are counted by, the watches over answers that pass as they came, the tools
// that a vendor has run, and the record of an exchange that goes to the ledger, the log and the metrics.
//
// It decides nothing: what is done about a demand is the business of package exchange.
package metering
