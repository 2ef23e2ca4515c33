package controlplane

import (
	"os"

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

// ReceiverCredential returns the credential of a receiver of alerts in clear; a zero value where it has none.
func (s *Server) ReceiverCredential(r *configv1.AlertReceiver) (secret.Value, error) {
	if r.GetCredential() == nil {
		return secret.Value{}, nil
	}
	// Its own resolver: the other is used by one goroutine.
	own := newResolver(s.config.Root.Sealer(), os.LookupEnv, s.config.Providers, s.config.Allowed, s.exchanger)
	if err := own.mayName(r); err != nil {
		return secret.Value{}, err
	}
	return own.secret(configv1.KindOf(r).Name, r.GetName(), "credential", r.GetCredential())
}
