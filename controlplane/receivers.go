package controlplane

import (
	"os"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/secret"
)

// State returns the configuration as it was last read, and false while none was. It must not be modified.
func (s *Server) State() (configstore.State, bool) {
	if state := s.last.Load(); state != nil {
		return *state, true
	}
	return configstore.State{}, false
}

// Chains returns the certificates that Envoy presents, as PEM by name. They must not be modified.
func (s *Server) Chains() map[string][]byte { return *s.chains.Load() }

// ReceiverCredential returns the credential of a receiver of alerts in clear; a zero value if it has none.
func (s *Server) ReceiverCredential(r *configv1.AlertReceiver) (secret.Value, error) {
	return s.reveal(r, "credential", r.GetCredential(), r)
}

// SinkCredential returns the credential of a sink of the audit log in clear; a zero value if it has none.
func (s *Server) SinkCredential(sink *configv1.AuditSink) (secret.Value, error) {
	return s.reveal(sink, "credential", sink.GetCredential(), sink)
}

// ClientSecret returns the secret of an identity provider's client in clear, which is sent to an endpoint that the
// issuer names; a zero value if it has none.
func (s *Server) ClientSecret(p *configv1.IdentityProvider, endpoint string) (secret.Value, error) {
	there := proto.CloneOf(p)
	there.Issuer = endpoint
	return s.reveal(p, "client_secret", p.GetClientSecret(), p, there)
}

// reveal returns a credential of an object in clear. Each of the uses must be allowed.
func (s *Server) reveal(o configv1.Object, field string, c *configv1.Credential,
	uses ...configv1.Object) (secret.Value, error) {
	if c == nil {
		return secret.Value{}, nil
	}
	own := s.ownResolver()
	for _, use := range uses {
		if err := own.mayName(use); err != nil {
			return secret.Value{}, err
		}
	}
	return own.secret(configv1.KindOf(o).Name, o.GetName(), field, c)
}

// ownResolver returns a resolver for one use: the other is used by one goroutine.
func (s *Server) ownResolver() *resolver {
	return newResolver(s.config.Root.Sealer(), os.LookupEnv, s.config.Providers, s.config.Allowed, s.exchanger,
		s.config.Vault, s.config.SecretManagers)
}
