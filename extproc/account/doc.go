// Package account has the account of an exchange: what is reserved for it under limits and budgets before it is sent,
// and what it is charged when it has ended. What is charged by which end is the table of package charges.
package account
