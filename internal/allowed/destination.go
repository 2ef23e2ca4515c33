package allowed

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
)

// A destination is where a credential goes, or a pattern of such.
type destination struct {
	plain bool   // without TLS
	host  string // in a pattern, "*" stands for what has no dot in it; alone it is every host
	port  uint32 // 0: any
	pipe  string // a Unix socket, in place of the others
}

const plainScheme, pipeScheme = "http://", "unix://"

// parse reads HOST[:PORT], for TLS, http://HOST[:PORT] or unix:///path. A port of "*" is any; without one it is the
// scheme's own.
func parse(text string) (destination, error) {
	if socket, ok := strings.CutPrefix(text, pipeScheme); ok {
		if !path.IsAbs(socket) {
			return destination{}, fmt.Errorf("a Unix socket is written unix:///path, and not %q", text)
		}
		return destination{pipe: socket}, nil
	}
	rest, unencrypted := strings.CutPrefix(text, plainScheme)
	d := destination{plain: unencrypted, port: 443}
	if unencrypted {
		d.port = 80
	}
	host, port := rest, ""
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, ']') {
		host, port = rest[:i], rest[i+1:]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
		d.port = uint32(n)
	} else if port == "*" {
		d.port = 0
	} else if port != "" || strings.HasSuffix(rest, ":") {
		return destination{}, fmt.Errorf("%q has a port that is none", text)
	}
	d.host = strings.ToLower(strings.Trim(host, "[]"))
	if d.host == "" || strings.Trim(d.host, "abcdefghijklmnopqrstuvwxyz0123456789-_.:*") != "" || host == d.host &&
		strings.Contains(host, ":") {
		return destination{},
			fmt.Errorf("%q is not a host such as api.example.com, *.example.com, api.example.com:8443 or http://127.0.0.1:8000",
				text)
	}
	if d.host == "*" && port == "" {
		d.port = 0
	}
	return d, nil
}

func ofEndpoint(e provider.Endpoint) destination {
	if e.Pipe != "" {
		return destination{pipe: e.Pipe}
	}
	return destination{plain: !e.TLS, host: strings.ToLower(e.Host), port: e.Port}
}

// covers reports whether to matches the pattern.
func (d destination) covers(to destination) bool {
	if d.pipe != "" || to.pipe != "" {
		return d.pipe == to.pipe
	}
	if d.plain != to.plain || d.port != 0 && d.port != to.port {
		return false
	}
	if d.host == "*" {
		return true
	}
	return slices.EqualFunc(strings.Split(d.host, "."), strings.Split(to.host, "."), configv1.Matches)
}

// String returns the destination as it is written in a flag.
func (d destination) String() string {
	if d.pipe != "" {
		return pipeScheme + d.pipe
	}
	scheme, standard := "", uint32(443)
	if d.plain {
		scheme, standard = plainScheme, 80
	}
	host := d.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	switch d.port {
	case standard:
		return scheme + host
	case 0:
		return scheme + host + ":*"
	}
	return scheme + net.JoinHostPort(d.host, strconv.Itoa(int(d.port)))
}

func list(all []destination) string {
	const most = 3
	var texts []string
	for _, d := range all {
		texts = append(texts, d.String())
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	if len(texts) > most {
		texts = append(texts[:most], fmt.Sprintf("%d more", len(texts)-most))
	}
	return strings.Join(texts, ", ")
}
