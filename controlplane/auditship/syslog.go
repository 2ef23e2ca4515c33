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
// protocol has no answer. So we end our half of the connection and wait until the receiver ends its own: it does so
// once it has read everything, and a receiver or a network that dies before does not.
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
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		err = half.CloseWrite()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, conn)
	}
	var late net.Error
	switch {
	case err == nil, errors.Is(err, io.ErrUnexpectedEOF): // the latter ended TLS without saying so
		return result{}
	case errors.As(err, &late) && late.Timeout():
		return result{says: "it did not close the connection, so it may not have read everything"}
	}
	return broken(err)
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
