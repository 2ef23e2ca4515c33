package serve

import "net/netip"

// alertFlags say where receivers of alerts and of the audit log may be.
type alertFlags struct {
	AlertNetwork []netip.Prefix `placeholder:"CIDR" help:"Private network where receivers of alerts and of the audit log are allowed, such as 10.1.0.0/16. In this network, http://, and SMTP and syslog without TLS, are also allowed. May be given more than once."`
}
