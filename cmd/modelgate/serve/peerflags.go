package serve

import (
	"net"
	"net/netip"

	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/extproc/peers"
)

// peerFlags are for an ext_proc service of several processes.
type peerFlags struct {
	Peers       string `placeholder:"HOST:PORT,..." env:"MODELGATE_PEERS" help:"Where the processes of this service listen, if there are several behind the address that Envoy has: names, which may lead to all of them, or their addresses. An attempt that Envoy sends to the wrong process is then answered by the one that has its plan."`
	PeerAddress string `placeholder:"IP[:PORT]" env:"MODELGATE_PEER_ADDRESS" help:"Where the other processes reach this one. Default port: the port of --listen."`
}

// self returns where other processes reach this one.
func (f peerFlags) self(listen string) (netip.AddrPort, error) {
	given := f.PeerAddress
	if _, err := netip.ParseAddr(given); err == nil {
		_, port, _ := net.SplitHostPort(listen)
		given = net.JoinHostPort(given, port)
	}
	self, err := netip.ParseAddrPort(given)
	if err != nil || self.Port() == 0 {
		return self, admincli.Misused("--peer-address must be IP or IP:PORT, and not %q", f.PeerAddress)
	}
	return self, nil
}

// options return nil if there is one process. The files are those of --tls-cert.
func (f peerFlags) options(listen string, t extprocServerFlags, log *zap.Logger) (*peers.Options, error) {
	switch {
	case f.Peers == "" && f.PeerAddress == "" && t.Peer == "":
		return nil, nil
	case f.Peers == "" || f.PeerAddress == "":
		return nil, admincli.Misused("--peers and --peer-address need each other")
	}
	self, err := f.self(listen)
	if err != nil {
		return nil, err
	}
	o := &peers.Options{Self: self, Credentials: insecure.NewCredentials(), Logger: log.Named("peers")}
	addresses, err := bootstrap.ParseAddresses(f.Peers)
	if err != nil || addresses[0].Pipe != "" {
		return nil, admincli.Misused("--peers must be HOST:PORT, or several with commas, and not %q", f.Peers)
	}
	for _, a := range addresses {
		o.Names = append(o.Names, a.String())
	}
	files, err := readMutualTLS(log, "--tls-", t.Cert, t.Key, t.CA)
	if err != nil || files == nil {
		return o, err
	}
	if t.Peer == "" {
		return nil, admincli.Misused("--peers with --tls-cert needs --tls-peer, the name in the certificates of the processes")
	}
	o.Credentials = credentials.NewTLS(files.Client(t.Peer))
	return o, nil
}
