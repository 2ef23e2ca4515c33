package configv1

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	maxURL = 2048
	// maxSocketPath is the maximum length of a Unix socket's path in the kernel.
	maxSocketPath = 107
	// secretPrefix and the sizes in bytes come from Standard Webhooks.
	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
)

// WebhookEvents returns the types of events that a webhook can receive.
func WebhookEvents() []string {
	return []string{
		"batch.completed", "batch.failed", "batch.cancelled", "batch.expired",
		"fine_tuning.job.succeeded", "fine_tuning.job.failed", "fine_tuning.job.cancelled",
	}
}

// Bounds and default of StoredResponses.retention.
const (
	defaultResponseRetention = 30 * 24 * time.Hour
	minResponseRetention     = time.Hour
	maxResponseRetention     = 365 * 24 * time.Hour
)

// KeptFor returns how long responses and conversations are kept.
func (x *StoredResponses) KeptFor() time.Duration {
	return orDefault(x.GetRetention(), defaultResponseRetention)
}

func (s *JobService) check(v *validator) {
	if d := s.GetStoredResponses().KeptFor(); d < minResponseRetention || d > maxResponseRetention {
		v.fail("stored_responses.retention", "must be from %s to %s", minResponseRetention, maxResponseRetention)
	}
	address, err := ParseSocket(s.GetAddress(), false)
	if err != nil {
		v.fail("address", "%v", err)
	}
	listen, listenErr := ParseSocket(s.GetListen(), true)
	if listenErr != nil {
		v.fail("listen", "%v", listenErr)
	}
	if err != nil || listenErr != nil {
		return
	}
	switch {
	case address == listen:
		v.fail("listen", "must differ from address: one is Envoy's, the other the job service's")
	case address.Local() && listen.Local() && s.GetTls() != nil:
		v.fail("tls", "is of no use between Unix sockets; leave it out")
	case address.Local() && listen.Local():
	case s.GetTls() == nil:
		v.fail("tls",
			"missing; it may be left out only where address and listen are Unix sockets, for whoever reaches them can act for any key")
	}
}

func (t *MutualTLS) check(v *validator) { v.pemOrFile("ca", t.GetCa(), t.GetCaFile()) }

// A Socket is an address: a path, or a host and a port.
type Socket struct {
	Path string // of a Unix socket, or empty
	Host string // a name or an IP address without brackets
	Port uint32
}

// Local reports whether it is a Unix socket.
func (s Socket) Local() bool { return s.Path != "" }

// ParseSocket reads unix:///path or host:port. If listening is set, the host is an IP address.
func ParseSocket(text string, listening bool) (Socket, error) {
	if p, ok := strings.CutPrefix(text, "unix://"); ok {
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || len(p) > maxSocketPath ||
			strings.ContainsFunc(p, unicode.IsControl) {
			return Socket{}, fmt.Errorf("a Unix socket is written unix:///path, with a plain path of at most %d bytes",
				maxSocketPath)
		}
		return Socket{Path: p}, nil
	}
	wanted := "host:port"
	if listening {
		wanted = "address:port"
	}
	host, port, err := net.SplitHostPort(text)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n == 0 {
		return Socket{}, fmt.Errorf("must be unix:///path or %s, with a port from 1 to 65535", wanted)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && ip.Zone() == "":
		return Socket{Host: ip.String(), Port: uint32(n)}, nil
	case err == nil, listening, !isHost(host):
		return Socket{}, fmt.Errorf("must be unix:///path or %s; %q is none", wanted, host)
	}
	return Socket{Host: host, Port: uint32(n)}, nil
}

// isHost reports whether s is a valid DNS name.
func isHost(s string) bool {
	u, err := url.Parse("https://" + s)
	return err == nil && s != "" && u.Host == s && len(s) <= 253 && !strings.ContainsAny(s, "%_:[]*")
}

func (w *Webhook) check(v *validator) {
	for i, e := range w.GetEvents() {
		if !slices.Contains(WebhookEvents(), e) {
			v.fail(element("events", i), "must be one of %s", listing(WebhookEvents()))
		}
	}
	if w.GetSecret() != nil {
		v.webhookSecret("secret", w.GetSecret())
	}
}

// webhookSecret checks the secret that signs the messages of a webhook.
func (v *validator) webhookSecret(field string, c *Credential) {
	if c == nil {
		v.fail(field, "missing; make one with: echo whsec_$(openssl rand -base64 32)")
	} else if s := c.GetValue(); s != "" {
		if err := CheckWebhookSecret(s); err != nil {
			v.fail(field+".value", "%v", err)
		}
	}
}

// CheckWebhookSecret returns an error if a secret does not have the form of Standard Webhooks. The error does not show
// the secret.
func CheckWebhookSecret(s string) error {
	encoded, ok := strings.CutPrefix(s, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	// base64 skips line breaks
	if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret || strings.ContainsAny(s, "\r\n") {
		return errors.New("must be whsec_ and base64 of 24 to 64 bytes")
	}
	return nil
}

func (l *Listing) check(v *validator) {
	seen := make(map[string]int, len(l.GetModels()))
	for i, m := range l.GetModels() {
		if first, ok := seen[m.GetId()]; ok {
			v.fail(element("models", i)+".id", "is the same as %s", element("models", first))
		} else {
			seen[m.GetId()] = i
		}
	}
}

func (m *ListedModel) check(v *validator) {
	if m.GetCreated() < 0 {
		v.fail("created", "must be a Unix time in seconds, or 0")
	}
}
