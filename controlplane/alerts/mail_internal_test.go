package alerts

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/mail"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/webhook"
)

const password = "the-password-of-ops"

// A mailbox is an SMTP server that keeps what it gets.
type mailbox struct {
	certificate *x509.Certificate
	port        uint32

	mu     sync.Mutex // guards what follows
	to     []string
	got    []byte
	logins int
}

// newMailbox starts one on the loopback, with STARTTLS, TLS from the start, or neither.
func newMailbox(t *testing.T, how configv1.SmtpTls) *mailbox {
	t.Helper()
	borrowed := httptest.NewTLSServer(nil) // for its certificate, which is for 127.0.0.1
	t.Cleanup(borrowed.Close)
	m := &mailbox{certificate: borrowed.Certificate()}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m.port = uint32(l.Addr().(*net.TCPAddr).Port)
	s := smtp.NewServer(m)
	s.Domain = "127.0.0.1"
	secure := &tls.Config{Certificates: borrowed.TLS.Certificates}
	switch how {
	case configv1.SmtpTls_IMPLICIT:
		l = tls.NewListener(l, secure)
	case configv1.SmtpTls_STARTTLS:
		s.TLSConfig = secure
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	return m
}

// NewSession begins a connection.
func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return session{m}, nil }

type session struct{ *mailbox }

// AuthMechanisms returns PLAIN.
func (session) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth knows one password.
func (s session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, got string) error {
		if username != "ops" || got != password {
			return errors.New("it is not " + got) // as some servers do
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.logins++
		return nil
	}), nil
}

// Mail takes any sender.
func (session) Mail(string, *smtp.MailOptions) error { return nil }

// Rcpt takes any recipient.
func (s session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = append(s.to, to)
	return nil
}

// Data keeps the e-mail.
func (s session) Data(r io.Reader) error {
	body, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = body
	return err
}

// Reset does nothing.
func (session) Reset() {}

// Logout does nothing.
func (session) Logout() error { return nil }

// senderTo returns a sender that trusts a mailbox.
func senderTo(t *testing.T, m *mailbox, given string) *sender {
	t.Helper()
	secure, plain, err := webhook.Dialers([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	require.NoError(t, err)
	return &sender{secure: secure, plain: plain, named: adminapi.Named(strings.NewReplacer("key_1", "Search").Replace),
		credential: func(*configv1.AlertReceiver) (secret.Value, error) { return secret.New(given), nil },
		settings: func(o *mailOptions) {
			o.tls.RootCAs = x509.NewCertPool()
			o.tls.RootCAs.AddCert(m.certificate)
		}}
}

func mailTo(m *mailbox, how configv1.SmtpTls, user string) *configv1.AlertReceiver {
	return &configv1.AlertReceiver{Name: "mail", Email: &configv1.AlertEmail{Host: "127.0.0.1", Port: m.port, Tls: how,
		Username: user, From: "modelgate@example.com", To: []string{"a@example.com", "b@example.com"}}}
}

func TestEMailArrives(t *testing.T) {
	event := adminapi.AlertEvent{ID: "alert_1", At: time.Unix(1_800_000_000, 0), Type: adminapi.AlertFired,
		Rule: "budgets", Subject: "key/key_1\r\nBcc: everybody@example.com",
		Message: "80 % of the budget „Ähre“ is spent.\r\n.\r\nQUIT"}
	for _, how := range []configv1.SmtpTls{configv1.SmtpTls_STARTTLS, configv1.SmtpTls_IMPLICIT,
		configv1.SmtpTls_PLAINTEXT} {
		t.Run(how.String(), func(t *testing.T) {
			m, user := newMailbox(t, how), "ops"
			if how == configv1.SmtpTls_PLAINTEXT {
				user = ""
			}
			got := senderTo(t, m, password).send(t.Context(), mailTo(m, how, user), event)
			require.Equal(t, result{outcome: webhook.Delivered}, got)
			require.Equal(t, []string{"a@example.com", "b@example.com"}, m.to)
			letter, err := mail.ReadMessage(bytes.NewReader(m.got))
			require.NoError(t, err)
			require.Empty(t, letter.Header.Get("Bcc"), "a subject adds no header")
			require.Equal(t, "<alert_1@modelgate>", letter.Header.Get("Message-Id"))
			require.Contains(t, letter.Header.Get("Subject"), "budgets: key/Search", "people read a name")
			require.NotContains(t, string(m.got), password)
			body, err := io.ReadAll(letter.Body)
			require.NoError(t, err)
			require.Contains(t, string(body), "Rule: budgets", "nothing ends it early")
		})
	}
}

func TestEMailIsNotSentInClearWhereTLSIsWanted(t *testing.T) {
	m := newMailbox(t, configv1.SmtpTls_PLAINTEXT) // it has no STARTTLS
	got := senderTo(t, m, password).send(t.Context(), mailTo(m, configv1.SmtpTls_STARTTLS, "ops"), newTest(time.Now()))
	require.NotEqual(t, webhook.Delivered, got.outcome)
	require.Zero(t, m.logins)
	require.Empty(t, m.got)

	m = newMailbox(t, configv1.SmtpTls_STARTTLS)
	s := senderTo(t, m, password)
	s.settings = nil // its certificate is of an authority that nobody knows
	got = s.send(t.Context(), mailTo(m, configv1.SmtpTls_STARTTLS, "ops"), newTest(time.Now()))
	require.NotEqual(t, webhook.Delivered, got.outcome)
	require.Zero(t, m.logins)
}

func TestAWrongPasswordIsSaidAndNotShown(t *testing.T) {
	m := newMailbox(t, configv1.SmtpTls_STARTTLS)
	const wrong = "not-the-password"
	got := senderTo(t, m, wrong).send(t.Context(), mailTo(m, configv1.SmtpTls_STARTTLS, "ops"), newTest(time.Now()))
	require.NotEqual(t, webhook.Delivered, got.outcome)
	require.NotEmpty(t, got.says)
	require.NotContains(t, got.says, wrong)
}

func TestASilentMailServerIsLeft(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	m := &mailbox{port: uint32(l.Addr().(*net.TCPAddr).Port)}
	s := senderTo(t, newMailbox(t, configv1.SmtpTls_STARTTLS), password)
	s.patience = 100 * time.Millisecond
	got := s.send(t.Context(), mailTo(m, configv1.SmtpTls_STARTTLS, "ops"), newTest(time.Now()))
	require.Equal(t, "it did not answer in time", got.says)
}

func TestALongOrBrokenLineIsOneLine(t *testing.T) {
	require.Equal(t, "a  b", line("a\r\nb", 10))
	require.LessOrEqual(t, len(line(strings.Repeat("é", 300), 100)), 100)
}
