package controlplane

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/controlplane/vault"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/compile"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
)

// maxSecretFile bounds what is read of a file that holds a credential, in bytes.
const maxSecretFile = 1 << 20

// A resolver finds the secrets that a configuration names. It is used by one goroutine.
type resolver struct {
	sealer    *secret.Sealer
	lookupEnv func(string) (string, bool)
	vendors   map[string]provider.Provider
	allowed   *allowed.List
	exchanger *exchanger
	vault     *secretstore.Follower // nil: there is none
	managers  *secretstore.Follower // of secrets in secret managers; nil: there are none

	providers map[string]*configv1.ResolvedProvider // last good ones
	last      map[string]map[string]configv1.Object // last good ones of other kinds, by kind and name
	ready     map[string]bool                       // providers whose last token may still be served
	files     map[string]stamp                      // files that were read for the last configuration
}

// A stamp tells whether a file was changed. It is zero for a file that cannot be read.
type stamp struct {
	modified time.Time
	size     int64
}

func newResolver(sealer *secret.Sealer, lookupEnv func(string) (string, bool), vendors map[string]provider.Provider,
	a *allowed.List, e *exchanger, v, managers *secretstore.Follower) *resolver {
	return &resolver{
		sealer:    sealer,
		lookupEnv: lookupEnv,
		vendors:   vendors,
		allowed:   a,
		exchanger: e,
		vault:     v,
		managers:  managers,
		providers: map[string]*configv1.ResolvedProvider{},
		last:      map[string]map[string]configv1.Object{},
		ready:     map[string]bool{},
		files:     map[string]stamp{},
	}
}

// resolve returns the configuration with its secrets in clear, and what is wrong with those. An object whose secret
// cannot be had stays as it last was, or is left out.
func (r *resolver) resolve(state configstore.State) (xds.Input, []xds.ObjectError) {
	in := xds.Input{
		Models:             configstore.All[*configv1.Model](state),
		Gateways:           configstore.All[*configv1.Gateway](state),
		Routes:             configstore.All[*configv1.Route](state),
		Catalogs:           configstore.All[*configv1.Catalog](state),
		Listings:           configstore.All[*configv1.Listing](state),
		Organizations:      configstore.All[*configv1.Organization](state),
		Projects:           configstore.All[*configv1.Project](state),
		RateLimits:         configstore.All[*configv1.RateLimit](state),
		CertificateIssuers: compile.InForce(configstore.All[*configv1.CertificateIssuer](state)),
	}
	for _, k := range state.Objects[xds.KindKey] {
		in.Keys = append(in.Keys, k.(*configv1.Key))
	}
	var errs []xds.ObjectError
	r.followSecrets(state)
	r.files = map[string]stamp{}
	providers := map[string]*configv1.ResolvedProvider{}
	exchanged := map[string]bool{}
	for _, p := range configstore.All[*configv1.Provider](state) {
		if r.exchanges(p) {
			exchanged[p.GetName()] = true
		}
		resolved, err := r.provider(p)
		if err != nil {
			errs = append(errs, xds.ObjectError{Object: xds.Object{Kind: xds.KindProvider, Name: p.GetName()}, Err: err,
				Withdraws: errors.Is(err, errExpired)})
		}
		if resolved != nil {
			if last := r.providers[p.GetName()]; last.GetProvider() == p && last.GetWaiting() == resolved.GetWaiting() &&
				last.GetCredential() == resolved.GetCredential() {
				resolved = last
			}
			providers[p.GetName()] = resolved
			in.Providers = append(in.Providers, resolved)
		}
	}
	r.exchanger.keep(exchanged)
	maps.DeleteFunc(r.ready, func(name string, _ bool) bool { return !exchanged[name] })
	var more []xds.ObjectError
	in.Certificates, more = resolveAll(r, state, (*resolver).certificate)
	errs = append(errs, more...)
	in.JobServices, more = resolveAll(r, state, (*resolver).jobService)
	errs = append(errs, more...)
	in.Webhooks, more = resolveAll(r, state, revealed[*configv1.Webhook])
	r.providers = providers
	return in, append(errs, more...)
}

// resolveAll resolves the objects of a kind. One whose secret cannot be had stays as it was the time before.
func resolveAll[M configv1.Object](r *resolver, state configstore.State,
	resolve func(*resolver, M) (M, error)) (resolved []M, errs []xds.ObjectError) {
	var none M
	kind, last := configv1.KindOf(none).Name, map[string]configv1.Object{}
	for _, o := range configstore.All[M](state) {
		name := o.GetName()
		before, ok := r.last[kind][name].(M)
		now, err := resolve(r, o)
		switch {
		case err == nil:
			now = unchanged(before, now)
		case ok:
			now = before
		}
		if err != nil {
			errs = append(errs, xds.ObjectError{Object: xds.Object{Kind: kind, Name: name}, Err: err})
		}
		if err == nil || ok {
			last[name] = now
			resolved = append(resolved, now)
		}
	}
	r.last[kind] = last
	return resolved, errs
}

// unchanged returns the message of the time before where it says the same: what is built from it is remembered by the
// pointer.
func unchanged[M proto.Message](before, now M) M {
	if proto.Equal(before, now) {
		return before
	}
	return now
}

// provider returns a provider with its credential, or nil if that cannot be had. An error may come with a provider:
// as it last was, or with a token that could not be renewed.
func (r *resolver) provider(p *configv1.Provider) (*configv1.ResolvedProvider, error) {
	resolved := &configv1.ResolvedProvider{Name: p.GetName(), Provider: p}
	if p.GetCredential() == nil || p.GetDisabled() {
		return resolved, nil
	}
	if err := r.mayName(p); err != nil {
		return r.providers[p.GetName()], err
	}
	v, err := r.secret(xds.KindProvider, p.GetName(), "credential", p.GetCredential())
	switch {
	case err != nil && r.exchanges(p):
		var lost error
		if v, lost = r.exchanger.last(p); errors.Is(lost, errExpired) {
			err = errors.Join(err, errExpired)
		}
	case errors.Is(err, secretstore.ErrUnread) && r.providers[p.GetName()] == nil:
		return r.waiting(resolved, err), err
	case err != nil:
		return r.providers[p.GetName()], err
	case r.exchanges(p):
		if v, err = r.exchanger.exchange(r.vendors[p.GetVendor()], p, v); err != nil {
			err = fmt.Errorf("credential: %w", err)
		}
	}
	if v.IsZero() {
		return r.waiting(resolved, err), err
	}
	r.ready[p.GetName()] = r.exchanges(p)
	resolved.Credential = v.Reveal()
	return resolved, err
}

// waiting returns a provider without a token as it is served until there is one, or nil if it stays as it last was.
func (r *resolver) waiting(resolved *configv1.ResolvedProvider, err error) *configv1.ResolvedProvider {
	if r.ready[resolved.GetName()] && !errors.Is(err, errExpired) {
		return nil
	}
	delete(r.ready, resolved.GetName())
	resolved.Waiting = true
	return resolved
}

// exchanges reports whether the provider's credential is exchanged for another.
func (r *resolver) exchanges(p *configv1.Provider) bool {
	return !p.GetDisabled() && p.GetCredential() != nil && (r.vendors[p.GetVendor()].Exchange != nil ||
		p.GetCredential().GetWorkloadIdentity() != nil)
}

// revealed returns an object with its credentials as values.
func revealed[M configv1.Object](r *resolver, o M) (M, error) {
	if d, ok := any(o).(interface{ GetDisabled() bool }); ok && d.GetDisabled() || len(configv1.Credentials(o)) == 0 {
		return proto.CloneOf(o), nil // whatever the credential of a disabled one is, it may not stay as it was
	}
	if err := r.mayName(o); err != nil {
		return o, err
	}
	resolved := proto.CloneOf(o)
	for _, c := range configv1.Credentials(resolved) {
		v, err := r.secret(configv1.KindOf(o).Name, o.GetName(), c.Field, c.Credential)
		if err != nil {
			return o, err
		}
		c.Credential.Source = &configv1.Credential_Value{Value: v.Reveal()}
	}
	return resolved, nil
}

// mayName returns why an object names what the process's flags do not allow, or nil. It is asked here too, because
// a stored object may be older than the flags, or may have bypassed the admin API.
func (r *resolver) mayName(o configv1.Object) error {
	if errs, ok := errors.AsType[configv1.Errors](r.allowed.Check(o)); ok {
		return fmt.Errorf("%s: %s", errs[0].Field, errs[0].Message)
	}
	return nil
}

// secret finds one secret. The error names the field and the source, and never the secret.
func (r *resolver) secret(kind, name, field string, c *configv1.Credential) (v secret.Value, err error) {
	switch source := c.GetSource().(type) {
	case *configv1.Credential_Env:
		text, _ := r.lookupEnv(source.Env)
		if v = secret.New(strings.TrimSpace(text)); v.IsZero() {
			err = fmt.Errorf("the control plane has no environment variable %s, or it is empty", source.Env)
		}
	case *configv1.Credential_File:
		v, err = r.file(source.File)
	case *configv1.Credential_Value:
		v = secret.New(source.Value)
	case *configv1.Credential_Sealed:
		v, err = r.sealer.Open(kind, name, field, source.Sealed)
	case *configv1.Credential_Vault:
		if err = vault.ErrNone; r.vault != nil {
			v, err = r.vault.Get(source.Vault.GetPath(), source.Vault.GetField())
		}
	case *configv1.Credential_SecretManager:
		if err = errNoManagers; r.managers != nil {
			v, err = r.managers.Get(source.SecretManager.GetName(), source.SecretManager.GetField())
		}
	case *configv1.Credential_WorkloadIdentity:
		v = secret.New(r.exchanger.identity + source.WorkloadIdentity.GetAs()) // for the exchanger alone
	default:
		err = errors.New("has no source")
	}
	if err != nil {
		return secret.Value{}, fmt.Errorf("%s: %w", field, err)
	}
	return v, nil
}

// secretsRead reports whether every secret elsewhere that a configuration names was tried to be read, and begins to
// read them.
func (r *resolver) secretsRead(state configstore.State) bool {
	r.followSecrets(state)
	return r.vault.Settled() && r.managers.Settled()
}

// followSecrets follows the secrets elsewhere that objects name and may name. Those of disabled ones are among them: a
// provider is tested before it is enabled.
func (r *resolver) followSecrets(state configstore.State) {
	if r.vault == nil && r.managers == nil {
		return
	}
	paths := map[string]map[string]bool{"vault": {}, "secret_manager": {}}
	for kind, objects := range state.Objects {
		if kind == xds.KindKey { // there may be very many
			continue
		}
		for _, o := range objects {
			for _, c := range configv1.Credentials(o) {
				source, path := c.Credential.Named()
				if of := paths[source]; of != nil && path != "" && r.mayName(o) == nil {
					of[path] = true
				}
			}
		}
	}
	r.vault.Follow(paths["vault"])
	r.managers.Follow(paths["secret_manager"])
}

// errNoManagers is the error if no secret in a secret manager may be named.
var errNoManagers = errors.New("the control plane reads no secret managers: start it with --credential-secret-manager")

func (r *resolver) file(path string) (secret.Value, error) {
	r.files[path] = stampOf(path)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return secret.Value{}, fmt.Errorf("reading the file: %w", err)
	case !info.Mode().IsRegular():
		return secret.Value{}, fmt.Errorf("%s is not a file", path)
	case info.Size() > maxSecretFile:
		return secret.Value{}, fmt.Errorf("the file %s is larger than %d bytes", path, maxSecretFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return secret.Value{}, fmt.Errorf("reading the file: %w", err)
	}
	v := secret.New(strings.TrimSpace(string(text)))
	if v.IsZero() {
		return secret.Value{}, fmt.Errorf("the file %s is empty", path)
	}
	return v, nil
}

// filesChanged reports whether any file was changed since the last configuration was resolved.
func (r *resolver) filesChanged() bool {
	for path, was := range r.files {
		if stampOf(path) != was {
			return true
		}
	}
	return false
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{modified: info.ModTime(), size: info.Size()}
}
