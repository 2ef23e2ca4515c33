// Package console prints what commands have to say to people. It is the only place that knows terminals: whether an
// output is one, how wide it is, and whether it may have colours.
//
// Programs read commands too. What is no terminal gets whole rows without colours, with times that a program can read.
package console
