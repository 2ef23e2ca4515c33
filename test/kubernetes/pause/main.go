// Package main does nothing until it is told to end: the container that holds a pod's network, and pods that are there
// to be looked out from.
//
// As the first process of its namespace it gets no signal that it does not ask for.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}
