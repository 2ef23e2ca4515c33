package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/metadata"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/view"
)

// runDNS is CoreDNS with the few plugins that a cluster needs, and those of docs/egress.md. CoreDNS knows the plugins that are linked from a list that
// is a variable of its package: setting it is how one chooses them, and it is read when the server starts.
func runDNS() {
	dnsserver.Directives = []string{"metadata", "bind", "view", "errors", "cache", "rewrite", "hosts", "kubernetes"}
	coremain.Run()
}
