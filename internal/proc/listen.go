package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/envoy/bootstrap"
)

// Listen listens on unix:///path or host:port. A socket that an earlier process left, or still uses, is replaced: what
// is open to that process goes on. Only the user that runs this process can open the new one.
func Listen(address string) (net.Listener, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && port == "0" {
		return listenOn("tcp", net.JoinHostPort(host, port))
	}
	a, err := bootstrap.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	if a.Pipe == "" {
		return listenOn("tcp", net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))))
	}
	if err := clearPath(a.Pipe); err != nil {
		return nil, err
	}
	l, err := listenOn("unix", a.Pipe)
	if err != nil {
		return nil, err
	}
	// A successor may have replaced the socket by the time that this process ends.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Chmod(a.Pipe, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("closing a socket to others: %w", err), l.Close())
	}
	return l, nil
}

// clearPath makes room for a socket. Its folder is made if it is missing, and what is no socket is left alone.
func clearPath(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("making the folder of a socket: %w", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("replacing a socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is not a socket, so it is not replaced", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("replacing a socket: %w", err)
	}
	return nil
}

func listenOn(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return l, nil
}

// Reachable returns how a client on this machine reaches what is bound to the address.
func Reachable(bound netip.AddrPort) string {
	if bound.Addr().IsUnspecified() {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), bound.Port()).String()
	}
	return bound.String()
}

// OnSocket reports whether an address names a Unix socket, which only this user can open.
func OnSocket(address string) bool { return strings.HasPrefix(address, "unix://") }
