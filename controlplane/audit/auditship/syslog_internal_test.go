package auditship

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A syslogMessage is what a strict reading of RFC 5424 finds.
type syslogMessage struct {
	priority                          int
	at                                time.Time
	host, app, process, id, structure string
	data                              map[string]string
	text                              string
}

// readSyslog reads one message that is counted in octets (RFC 6587, section 3.4.1).
func readSyslog(r *bufio.Reader) (m syslogMessage, err error) {
	count, err := r.ReadString(' ')
	if err != nil {
		if errors.Is(err, io.EOF) && count == "" {
			return m, io.EOF
		}
		return m, fmt.Errorf("a cut count %q: %w", count, err)
	}
	n, err := strconv.ParseUint(count[:len(count)-1], 10, 32)
	if err != nil || count[0] == '0' {
		return m, fmt.Errorf("%q is no count", count)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return m, fmt.Errorf("a cut message: %w", err)
	}
	return parseSyslog(string(text))
}

var syslogHeader = regexp.MustCompile(`^<([1-9][0-9]{0,2})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)) ` +
	`([!-~]{1,255}) ([!-~]{1,48}) ([!-~]{1,128}) ([!-~]{1,32}) \[([!-~]{1,32}?)(?: |\])`)

func parseSyslog(s string) (m syslogMessage, err error) {
	first, _, _ := strings.Cut(s, "\n")
	parts := syslogHeader.FindStringSubmatch(first) // it does not look at the data, which is up to 2 MB
	if parts == nil {
		return m, fmt.Errorf("no message: %q", s)
	}
	m.priority, _ = strconv.Atoi(parts[1])
	if m.at, err = time.Parse(time.RFC3339Nano, parts[2]); err != nil || m.priority > 191 {
		return m, fmt.Errorf("no header: %q", s)
	}
	m.host, m.app, m.process, m.id, m.structure = parts[3], parts[4], parts[5], parts[6], parts[7]
	m.data = map[string]string{}
	rest := s[len(parts[0])-1:]
	for strings.HasPrefix(rest, " ") {
		name, after, found := strings.Cut(rest[1:], `="`)
		if !found || name == "" || len(name) > 32 || strings.ContainsAny(name, "= ]\"") {
			return m, fmt.Errorf("no parameter: %q", rest)
		}
		var value strings.Builder
		i := 0
		for ; i < len(after) && after[i] != '"'; i++ {
			if after[i] == ']' {
				return m, fmt.Errorf("a bracket that is not escaped: %q", after)
			}
			if after[i] == '\\' {
				i++
			}
			value.WriteByte(after[i])
		}
		if _, twice := m.data[name]; twice || i == len(after) {
			return m, fmt.Errorf("no end: %q", after)
		}
		m.data[name], rest = value.String(), after[i+1:]
	}
	if !strings.HasPrefix(rest, "] ") {
		return m, fmt.Errorf("no end of the structured data: %q", rest)
	}
	m.text = rest[2:]
	return m, nil
}

// syslogServer is served by a handler of connections.
func syslogServer(t *testing.T, secure *tls.Config, handle func(net.Conn)) (address string) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			handle(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// reading takes messages until the connection ends, and fails the test for one that is none.
func reading(t *testing.T, k *taker) func(net.Conn) {
	return func(conn net.Conn) {
		for r := bufio.NewReader(conn); ; {
			m, err := readSyslog(r)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Log(err)
				}
				return
			}
			var e adminapi.AuditEntry
			if err := json.Unmarshal([]byte(m.text), &e); err != nil {
				t.Errorf("%q: %v", m.text, err)
			}
			if m.priority != 109 || !m.at.Equal(e.At) || m.app != "modelgate" || m.id != "audit" ||
				m.structure != "modelgate@32473" || m.data["sequence"] != fmt.Sprint(e.Sequence) ||
				m.data["hash"] != e.Hash || m.data["actor"] != e.Actor || m.data["id"] != e.ID {
				t.Errorf("%+v is not of %+v", m, e)
			}
			k.take(e)
		}
	}
}

func toSyslog(address string, secure bool, ca string) *configv1.AuditSink {
	return &configv1.AuditSink{Name: "siem", Syslog: &configv1.AuditSyslog{Address: address, Tls: secure, Ca: ca}}
}

// secured returns the TLS of a server, and its authority.
func secured(t *testing.T) (*tls.Config, string) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12},
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func TestSyslogGetsMessages(t *testing.T) {
	secure, ca := secured(t)
	for name, c := range map[string]*tls.Config{"plain": nil, "TLS": secure} {
		t.Run(name, func(t *testing.T) {
			var k taker
			var n atomic.Int32
			whole := reading(t, &k)
			address := syslogServer(t, c, func(conn net.Conn) {
				if n.Add(1)%3 == 1 { // it reads a part, and dies
					_, _ = io.CopyN(io.Discard, conn, 100)
					return
				}
				whole(conn)
			})
			w := newWorld(t, toSyslog(address, c != nil, map[bool]string{true: ca}[c != nil]))
			w.write(1000)
			w.set(func() { w.chain(adminapi.AuditEntry{Action: "huge", Diff: "a\n" + long(2<<20)}) })
			s := w.service()
			w.run(s)
			w.delivered(s, "siem")
			w.requireAll(&k)
			require.Positive(t, n.Load())
		})
	}
}

func TestSyslogThatMayNotHaveReadEverythingHasNotTakenIt(t *testing.T) {
	w := newWorld(t)
	w.write(50)
	s := w.service()
	b, err := (&follower{Service: s}).read(t.Context())
	require.NoError(t, err)

	secure, ca := secured(t)
	release := make(chan struct{})
	var k taker
	silent := syslogServer(t, nil, func(net.Conn) { <-release })
	defer close(release)
	for name, c := range map[string]struct {
		sink *configv1.AuditSink
		says string
	}{
		"nobody there": {toSyslog("127.0.0.1:1", false, ""), "it cannot be reached"},
		"an unknown authority": {toSyslog(syslogServer(t, secure, reading(t, &k)), true, ""),
			"its certificate is not trusted"},
		"no TLS there": {toSyslog(syslogServer(t, nil, func(c net.Conn) { _, _ = c.Write([]byte("hello, text")) }),
			true, ca), "it cannot be reached"},
		"a reset": {toSyslog(syslogServer(t, nil, func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }), false, ""),
			"it cannot be reached"},
		"an early end": {toSyslog(syslogServer(t, nil, func(net.Conn) {}), false, ""), "it cannot be reached"},
		"an early end of TLS": {toSyslog(syslogServer(t, secure, func(c net.Conn) {
			_ = c.(*tls.Conn).HandshakeContext(t.Context())
		}), true, ca), "it cannot be reached"},
		"no end": {toSyslog(silent, false, ""), "it did not close the connection, so it may not have read everything"},
	} {
		s.sender.patience = 5 * time.Second
		if name == "no end" {
			s.sender.patience = 200 * time.Millisecond
		}
		require.Equal(t, c.says, s.sender.send(t.Context(), c.sink, b).says, name)
	}
	require.Empty(t, k.taken())

	s.options.Networks = nil
	strict, err := newSender(s.options)
	require.NoError(t, err)
	for _, secure := range []bool{true, false} {
		require.Equal(t, "its address is not allowed (--alert-network)",
			strict.send(t.Context(), toSyslog(silent, secure, ""), b).says)
	}
	require.Equal(t, "its address is not allowed (--alert-network)",
		strict.send(t.Context(), hook("ops", "https://127.0.0.1:1/"), b).says)
}

func TestNamesOfHosts(t *testing.T) {
	require.Equal(t, "-", nameOf(""))
	require.Equal(t, "host-1.example", nameOf("host-1 .example\u00e9"))
	require.Equal(t, "-", nameOf(long(256)))
	require.Equal(t, `a\"\]\\ b`, escaped("a\"]\\\nb"))
}
