// Package reported reads the usage that vendors report. It is the only reader of usage: answers that are translated,
// answers that pass, sessions, batches and Routes all count with it, so that an answer costs the same on every path.
//
// The table in forms.go has the members of all vendors' forms. A form is not chosen: every member has a meaning of its
// own, and an object may have members of several forms, as proxies send them.
package reported
