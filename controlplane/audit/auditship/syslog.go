package auditship

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"unicode"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

const (
	// priority is facility 13, log audit, and severity 5, notice (RFC 5424, section 6.2.1).
	priority = 13*8 + 5
	// dataID names our structured data. 32473 is the number that RFC 5612 has for those who have none of their own.
	dataID = "modelgate@32473"
	// timestamp is as RFC 5424 has it, section 6.2.3.
	timestamp = "2006-01-02T15:04:05.000Z07:00"
)

// syslog writes a batch as messages of RFC 5424, counted in octets (RFC 6587), over a connection of its own. The
// protocol has no answer. So the batch is taken where the receiver ends the connection after it has read everything.
func (s *sender) syslog(ctx context.Context, to *configv1.AuditSyslog, b batch) result {
	conn, err := s.dialSyslog(ctx, to)
	if err != nil {
		return broken(err)
	}
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) { // which the connection has, too, and tells
			_ = conn.Close()
		}
	})
	defer stop()
	defer func() { _ = conn.Close() }()
	if d, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(d)
	}
	var messages bytes.Buffer
	for _, i := range b.items {
		m := s.message(i)
		messages.WriteString(strconv.Itoa(len(m)))
		messages.WriteByte(' ')
		messages.Write(m)
	}
	if _, err := conn.Write(messages.Bytes()); err != nil {
		return broken(err)
	}
	err = ended(ctx, conn)
	var late net.Error
	switch {
	case err == nil:
		return result{}
	case errors.As(err, &late) && late.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return result{says: "it did not close the connection, so it may not have read everything"}
	}
	return broken(err)
}

// ended ends our half of a connection, and returns nil once the other side has read everything and ended its own. What
// it closes without reading everything is reset by its kernel, which may be after it has said goodbye.
func ended(ctx context.Context, conn net.Conn) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return net.ErrClosed
	}
	if err := half.CloseWrite(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err // the other is of TLS that has ended without saying so
	}
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
		if half, ok := conn.(*net.TCPConn); ok {
			if err := half.CloseWrite(); err != nil {
				return err
			}
		}
		if _, err := io.Copy(io.Discard, conn); err != nil {
			return err
		}
	}
	return acknowledged(ctx, conn)
}

func (s *sender) dialSyslog(ctx context.Context, to *configv1.AuditSyslog) (net.Conn, error) {
	if !to.GetTls() {
		return s.plain.DialContext(ctx, "tcp", to.GetAddress())
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if to.GetCa() != "" {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM([]byte(to.GetCa()))
	}
	return (&tls.Dialer{NetDialer: s.secure, Config: config}).DialContext(ctx, "tcp", to.GetAddress())
}

// message returns an entry as a message of RFC 5424. Its text is the entry as JSON.
func (s *sender) message(i item) []byte {
	var m bytes.Buffer
	fmt.Fprintf(&m, "<%d>1 %s %s modelgate - audit [%s", priority, i.At.UTC().Format(timestamp), s.host, dataID)
	for _, p := range [][2]string{{"id", i.ID}, {"sequence", sequenceOf(i)}, {"hash", i.Hash}, {"previous", i.Previous},
		{"actor", i.Actor}, {"action", i.Action}, {"kind", i.Kind}, {"name", i.Name}} {
		if p[1] != "" {
			fmt.Fprintf(&m, ` %s="%s"`, p[0], escaped(p[1]))
		}
	}
	m.WriteString("] ")
	m.Write(i.json)
	return m.Bytes()
}

// sequenceOf returns the sequence of an entry of the chain; empty: it is outside it.
func sequenceOf(i item) string {
	if i.Sequence == 0 {
		return ""
	}
	return strconv.FormatInt(i.Sequence, 10)
}

// escaped returns a value of structured data (RFC 5424, section 6.3.3), on one line.
func escaped(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `]`, `\]`).Replace(s)
}

// nameOf returns a name as a header of RFC 5424 has it: printable ASCII, or "-" for none.
func nameOf(s string) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	if s == "" || len(s) > 255 {
		return "-"
	}
	return s
}
