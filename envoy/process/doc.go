// Package process runs an Envoy as a child: it finds the binary, starts it, turns its log lines into ours, starts it
// again when it dies, drains it and stops it.
//
// Ctrl-C in a terminal goes to the whole process group, and an Envoy that gets it cuts every
// stream at once. The child therefore has a group of its own and ends only by Stop, or with its parent.
package process
