package main

import (
	"context"
	"io"

	"github.com/modelgate/modelgate/envoy/bootstrap"
)

type envoyCmd struct {
	Bootstrap bootstrapCmd `cmd:"" help:"Print the bootstrap that an Envoy is started with."`
}

type bootstrapCmd struct {
	Node           string `default:"${hostname}" env:"MODELGATE_NODE" help:"Name of this Envoy."`
	AdminSocket    string `default:"/run/modelgate/envoy-admin.sock" help:"Unix socket of Envoy's admin interface."`
	Extproc        string `default:"unix:///run/modelgate/extproc.sock" help:"Where the ext_proc service listens: unix:///path or host:port. It has no TLS: use a port only where no one else can reach it."`
	MaxHeap        uint64 `default:"0" help:"Heap in bytes at 95 % of which new requests are refused. 0: no limit."`
	MaxConnections int64  `default:"50000" help:"Downstream connections that are accepted."`

	XDS xdsFlags `embed:"" prefix:"xds-"`
}

// Run prints the bootstrap as YAML.
func (c *bootstrapCmd) Run(_ context.Context, stdout io.Writer) error {
	extProc, err := bootstrap.ParseAddress(c.Extproc)
	if err != nil {
		return err
	}
	xds, err := bootstrap.ParseAddress(c.XDS.Address)
	if err != nil {
		return err
	}
	o := bootstrap.Options{
		NodeID:         c.Node,
		AdminSocket:    c.AdminSocket,
		ExtProc:        extProc,
		XDS:            xds,
		MaxHeapBytes:   c.MaxHeap,
		MaxConnections: c.MaxConnections,
	}
	if given, err := c.XDS.mutualTLS(); err != nil {
		return err
	} else if given {
		o.XDSTLS = &bootstrap.TLS{CA: c.XDS.CA, Certificate: c.XDS.Cert, Key: c.XDS.Key, ServerName: c.XDS.serverName(xds.Host)}
	}
	text, err := bootstrap.YAML(o)
	if err != nil {
		return err
	}
	_, err = stdout.Write(text)
	return err
}
