package alerts

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/webhook"
)

// mailOptions are the settings that tests change.
type mailOptions struct{ tls *tls.Config }

// mail sends an event by e-mail. The password goes only to a server that TLS has proved to be the one of the
// configuration.
func (s *sender) mail(ctx context.Context, e *configv1.AlertEmail, password secret.Value,
	event adminapi.AlertEvent) result {
	o := mailOptions{tls: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: e.GetHost()}}
	if s.settings != nil {
		s.settings(&o)
	}
	message, err := letter(e, event)
	if err != nil {
		return result{outcome: webhook.Unsigned, says: "the e-mail cannot be written: " + line(err.Error(), maxMessage)}
	}
	dialer := s.secure
	options := []mail.Option{mail.WithPort(int(e.PortNumber())), mail.WithTimeout(left(ctx)), mail.WithTLSConfig(o.tls),
		mail.WithTLSPolicy(mail.TLSMandatory), mail.WithHELO("modelgate")}
	if e.GetUsername() != "" {
		how := mail.SMTPAuthAutoDiscover
		if e.GetTls() == configv1.SmtpTls_IMPLICIT { // of a connection that is not its own it does not know that it is TLS
			how = mail.SMTPAuthPlain
		}
		options = append(options, mail.WithSMTPAuth(how), mail.WithUsername(e.GetUsername()),
			mail.WithPassword(password.Reveal()))
	}
	switch e.GetTls() {
	case configv1.SmtpTls_IMPLICIT:
		options = append(options, mail.WithSSL())
	case configv1.SmtpTls_PLAINTEXT:
		dialer = s.plain
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	options = append(options, mail.WithDialContextFunc(func(ctx context.Context, network, at string) (net.Conn, error) {
		return connect(ctx, dialer, network, at, e.GetTls(), o.tls)
	}))
	client, err := mail.NewClient(e.GetHost(), options...)
	if err != nil {
		return result{outcome: webhook.Unsigned, says: "its settings are not possible: " + line(err.Error(), maxMessage)}
	}
	if err := client.DialAndSendWithContext(ctx, message); err != nil {
		return failed(err, password)
	}
	return result{outcome: webhook.Delivered}
}

// left returns the time until the deadline of an attempt. The client applies it to the connection again, so that a
// server that falls silent is left.
func left(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return max(time.Until(at), time.Millisecond)
	}
	return webhook.Timeout
}

// connect connects to an SMTP server.
func connect(ctx context.Context, d *net.Dialer, network, at string, how configv1.SmtpTls,
	c *tls.Config) (net.Conn, error) {
	conn, err := d.DialContext(ctx, network, at)
	if err != nil {
		return nil, err
	}
	if how != configv1.SmtpTls_IMPLICIT {
		return conn, nil
	}
	secure := tls.Client(conn, c)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// letter returns the e-mail of an event. Its id is the same at each attempt.
func letter(e *configv1.AlertEmail, event adminapi.AlertEvent) (*mail.Msg, error) {
	m := mail.NewMsg()
	if err := errors.Join(m.From(e.GetFrom()), m.To(e.GetTo()...)); err != nil {
		return nil, err
	}
	m.Subject(title(event))
	m.SetDateWithValue(event.At)
	m.SetMessageIDWithValue(event.ID + "@modelgate")
	m.SetGenHeader("Auto-Submitted", "auto-generated") // so that nobody's absence is answered
	body := event.Message + "\n\n"
	for _, l := range [][2]string{{"Rule", event.Rule}, {"Condition", event.Condition}, {"Subject", event.Subject},
		{"Time", event.At.UTC().Format(time.RFC3339)}, {"Event", event.ID}} {
		if l[1] != "" {
			body += l[0] + ": " + line(l[1], maxMessage) + "\n"
		}
	}
	m.SetBodyString(mail.TypeTextPlain, body)
	return m, nil
}

// failed returns what went wrong, without the password, which a server may repeat.
func failed(err error, password secret.Value) result {
	outcome := webhook.Reason(err)
	switch outcome {
	case webhook.Blocked, webhook.TimedOut:
		return result{outcome: outcome, says: webhook.Result{Outcome: outcome}.Says(networkFlag)}
	}
	text := err.Error()
	if p := password.Reveal(); p != "" {
		text = strings.ReplaceAll(text, p, secret.Redacted)
	}
	return result{outcome: outcome, says: line(text, maxMessage)}
}
