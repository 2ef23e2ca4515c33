// Package process runs an Envoy as a child process: it finds the binary, starts it, converts its log lines, restarts
// it when it dies, drains it and stops it.
//
// Ctrl-C in a terminal goes to the whole process group, and would make Envoy cut every stream at once. So the child
// has its own process group, and ends only by Stop or with its parent.
package process
