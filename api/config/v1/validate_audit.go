package configv1

import (
	"net"
	"path"
	"strconv"
	"strings"
	"unicode"
)

// Kind returns what a sink is: webhook, syslog, otlp or file.
func (s *AuditSink) Kind() string {
	switch {
	case s.GetSyslog() != nil:
		return "syslog"
	case s.GetOtlp() != nil:
		return "otlp"
	case s.GetFile() != nil:
		return "file"
	}
	return "webhook"
}

func (v *validator) auditSink(s *AuditSink) {
	v.label("name", s.GetName())
	given := 0
	for _, there := range []bool{s.GetWebhook() != nil, s.GetSyslog() != nil, s.GetOtlp() != nil, s.GetFile() != nil} {
		if there {
			given++
		}
	}
	if given != 1 {
		v.fail("", "needs exactly one of webhook, syslog, otlp and file")
		return
	}
	if s.GetCredential() != nil {
		v.credential("credential", s.GetCredential())
	}
	switch s.Kind() {
	case "webhook":
		v.auditWebhook(s)
	case "syslog":
		v.auditSyslog(s.GetSyslog())
	case "otlp":
		if _, err := s.Endpoint(); err != nil {
			v.fail("otlp.endpoint", "%v", err)
		} else if strings.Contains(s.GetOtlp().GetEndpoint(), "?") {
			v.fail("otlp.endpoint", "must have no query")
		}
	case "file":
		v.auditFile("file.path", s.GetFile().GetPath())
	}
	if s.GetCredential() != nil && (s.GetSyslog() != nil || s.GetFile() != nil) {
		v.fail("credential", "must be absent: a sink of the kind %s uses none", s.Kind())
	}
}

func (v *validator) auditWebhook(s *AuditSink) {
	if _, err := s.Endpoint(); err != nil {
		v.fail("webhook.url", "%v", err)
	}
	if s.GetCredential() == nil {
		v.fail("credential", "missing; make one with: echo whsec_$(openssl rand -base64 32)")
		return
	}
	if text := s.GetCredential().GetValue(); text != "" {
		if err := CheckWebhookSecret(text); err != nil {
			v.fail("credential.value", "%v", err)
		}
	}
}

func (v *validator) auditSyslog(s *AuditSyslog) {
	host, port, err := net.SplitHostPort(s.GetAddress())
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || number == 0 || !isHost(host) && net.ParseIP(host) == nil {
		v.fail("syslog.address", "must be a host and a port, such as logs.example.com:6514")
	}
	if s.GetCa() == "" {
		return
	}
	v.pemCertificates("syslog.ca", s.GetCa())
	if !s.GetTls() {
		v.fail("syslog.tls", "must be true where there is a ca")
	}
}

// auditFile accepts a path that leads nowhere else than it looks.
func (v *validator) auditFile(field, s string) {
	if !path.IsAbs(s) || path.Clean(s) != s || s == "/" || len(s) > maxURL || strings.ContainsFunc(s, unicode.IsControl) {
		v.fail(field, "must be the plain absolute path of a file, such as /var/log/modelgate/audit.jsonl")
	}
}
