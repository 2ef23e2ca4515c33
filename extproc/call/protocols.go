package call

import "strings"

// HeaderProtocol has the subprotocols that a WebSocket client offers. A browser cannot set other headers: its key is
// in one of them.
const (
	HeaderProtocol = "sec-websocket-protocol"
	protocolKey    = "openai-insecure-api-key."
)

// Protocols returns the subprotocols that a client offers, in any number of headers.
func Protocols(h Headers) (all []string) {
	for i := range h {
		if h[i].Name != HeaderProtocol {
			continue
		}
		for _, p := range strings.Split(h[i].Value, ",") {
			if p = strings.TrimSpace(p); p != "" {
				all = append(all, p)
			}
		}
	}
	return all
}

// KeyOfProtocols returns the key in the subprotocols of a browser as a bearer token, or "".
func KeyOfProtocols(h Headers) string {
	for _, p := range Protocols(h) {
		if key, ok := strings.CutPrefix(p, protocolKey); ok {
			return "Bearer " + key
		}
	}
	return ""
}
