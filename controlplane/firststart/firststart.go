// Package firststart makes the objects with which a gateway on one machine starts: its listener, a development
// certificate, providers and a first key. It writes them through the admin API, at each start.
//
// An object of the operator's is never replaced: only fields that follow a start are set, such as the sockets. What is
// in the operator's files comes last.
package firststart

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/atomicfile"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/provider"
)

const (
	// Name is the name of the gateway, the certificate and the first key.
	Name = "default"
	// Listener is what the control plane calls the listener of that gateway.
	Listener = "gateway/" + Name
	// Echo is the built-in provider, which repeats what it is asked.
	Echo = "echo"
)

// Options say where a gateway on one machine is, and what it starts with.
type Options struct {
	API     *adminapi.Client
	Address netip.AddrPort // of the gateway
	// Addresses of this start: of the built-in provider, of the job service, and of Envoy for the job service.
	Echo, Jobs, Internal string

	Data    string   // the folder of the development certificate
	Hosts   []string // that it is for
	KeyFile string   // of the first key

	Vendors map[string]provider.Provider
	Allowed *allowed.List     // what objects may name
	Objects []configv1.Object // of the operator's files
	// Refused says that the objects of the files were refused.
	Refused func(error) error
	Log     *zap.Logger
}

// Configure brings the stored configuration in line with the command line and the environment, through the admin API.
// It adds what is missing: the gateway, its certificate, the built-in provider, the job service, the providers whose
// keys are in the environment, and a first key. Of objects that are there, it sets only the fields that follow each
// start. Everything else is the operator's, and stays. The objects of files come last, and may replace any of it.
func (o *Options) Configure(ctx context.Context) error {
	certificate, err := o.certificate(ctx)
	if err != nil {
		return fmt.Errorf("preparing the certificate: %w", err)
	}
	listener, err := following(ctx, o.API, &configv1.Gateway{Name: Name, Address: o.Address.Addr().String(),
		Port: uint32(o.Address.Port())}, "address", "port")
	if err != nil {
		return fmt.Errorf("preparing the gateway: %w", err)
	}
	// TLS is not for the sockets of this start.
	jobs, err := following(ctx, o.API, &configv1.JobService{Name: Name, Address: o.Jobs, Listen: o.Internal}, "address",
		"listen", "tls")
	if err != nil {
		return fmt.Errorf("preparing the job service: %w", err)
	}
	providers, err := o.providers(ctx)
	if err != nil {
		return fmt.Errorf("preparing the providers: %w", err)
	}
	objects := append(providers, listener, jobs)
	if certificate != nil {
		objects = append(objects, certificate)
	}
	if _, err := o.API.Apply(ctx, objects, false); err != nil {
		return fmt.Errorf("storing the configuration: %w", err)
	}
	if err := o.createFirstKey(ctx); err != nil {
		return fmt.Errorf("making the first key: %w", err)
	}
	return o.applyFiles(ctx)
}

// certificate returns the development certificate, or nil if the operator has put another one in its place.
func (o *Options) certificate(ctx context.Context) (configv1.Object, error) {
	stored, err := get(ctx, o.API, &configv1.Certificate{Name: Name})
	if err != nil || stored != nil && !certs.IsDevelopment([]byte(stored.GetChain())) {
		return nil, err
	}
	pair, err := certs.Ensure(o.Data, o.Hosts, time.Now())
	if err != nil {
		return nil, err
	}
	return following(ctx, o.API, &configv1.Certificate{
		Name:       Name,
		Chain:      string(pair.Certificate),
		PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{Value: string(pair.Key)}},
	}, "chain", "private_key")
}

// following returns an object as it is to be stored: as this start makes it if there is none, and otherwise as it is
// stored, with the fields that follow each start.
func following[T configv1.Object](ctx context.Context, api *adminapi.Client, made T,
	fields ...protoreflect.Name) (configv1.Object, error) {
	stored, err := get(ctx, api, made)
	if err != nil {
		return nil, err
	}
	if !stored.ProtoReflect().IsValid() { // there is none
		return made, nil
	}
	wanted := proto.CloneOf(stored)
	from, to := made.ProtoReflect(), wanted.ProtoReflect()
	for _, name := range fields {
		if f := from.Descriptor().Fields().ByName(name); from.Has(f) {
			to.Set(f, from.Get(f))
		} else {
			to.Clear(f)
		}
	}
	return wanted, nil
}

// providers returns the built-in provider, whose socket can be elsewhere at each start, and one for each vendor whose
// own variable for a key is set and of whose name there is none.
func (o *Options) providers(ctx context.Context) ([]configv1.Object, error) {
	var wanted []configv1.Object
	stored, err := get(ctx, o.API, &configv1.Provider{Name: Echo})
	if err != nil {
		return nil, err
	}
	// An operator may have another provider of that name, or the same elsewhere.
	if stored == nil || stored.GetVendor() == Echo && strings.HasPrefix(stored.GetEndpoint(), "unix:") {
		echo, err := following(ctx, o.API, &configv1.Provider{Name: Echo, Vendor: Echo,
			Models: []string{Echo}, Endpoint: o.Echo}, "endpoint")
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, echo)
	}
	for name, vendor := range o.Vendors {
		if vendor.CredentialEnv == "" || os.Getenv(vendor.CredentialEnv) == "" {
			continue
		}
		stored, err := get(ctx, o.API, &configv1.Provider{Name: name})
		if err != nil {
			return nil, err
		}
		if stored != nil {
			continue
		}
		p := &configv1.Provider{
			Name:       name,
			Vendor:     name,
			Credential: &configv1.Credential{Source: &configv1.Credential_Env{Env: vendor.CredentialEnv}},
		}
		if _, err := vendor.Endpoint(p); err != nil { // a region, or an address of its own
			o.Log.Info("provider not added from the environment: it needs more than a credential",
				zap.String("provider", name), zap.String("variable", vendor.CredentialEnv), zap.Error(err))
			continue
		}
		if err := o.Allowed.Check(p); err != nil {
			o.Log.Info("provider not added from the environment: --credential-env sends its variable to other hosts",
				zap.String("provider", name), zap.Error(err))
			continue
		}
		wanted = append(wanted, p)
		o.Log.Info("provider added from the environment",
			zap.String("provider", name), zap.String("variable", vendor.CredentialEnv))
	}
	return wanted, nil
}

// createFirstKey makes a key if there is no file of one. A key that was revoked does not come back: its file is
// there.
func (o *Options) createFirstKey(ctx context.Context) error {
	info, err := os.Stat(o.KeyFile)
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file: restore it from a copy, or move it away, and a new key is created",
			o.KeyFile)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	made, err := o.API.Waiting(0, nil).CreateKey(ctx, adminapi.KeyRequest{DisplayName: Name})
	if err != nil {
		return err
	}
	return atomicfile.Write(o.KeyFile, []byte(made.Key+"\n"), 0o600)
}

// CheckKey warns if the key in the data folder is not known. Whoever reads only what is printed would look for the
// reason elsewhere.
func (o *Options) CheckKey(known func(key string) bool) error {
	text, err := os.ReadFile(o.KeyFile)
	if err != nil {
		return err
	}
	if !known(strings.TrimSpace(string(text))) {
		o.Log.Warn("the key in this file is not valid: it was revoked, is damaged, or does not belong to the configuration in etcd. "+
			"Restore it from a copy. Or move it away and restart: the gateway then creates a new key",
			zap.String("file", o.KeyFile))
	}
	return nil
}

// applyFiles applies the objects of files, all of them or none.
func (o *Options) applyFiles(ctx context.Context) error {
	if len(o.Objects) == 0 {
		return nil
	}
	_, err := o.API.Apply(ctx, o.Objects, false)
	if err != nil && !IsStoreFull(err) {
		return o.Refused(err)
	}
	return err
}

// get returns the stored object that has the type and the name of o, or nil if there is none.
func get[T configv1.Object](ctx context.Context, api *adminapi.Client, o T) (T, error) {
	var none T
	item, err := api.Get(ctx, configv1.KindOf(o), o.GetName())
	if e, ok := errors.AsType[*openai.Error](err); ok && e.Status == http.StatusNotFound {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	stored, ok := item.Object.(T)
	if !ok {
		return none, fmt.Errorf("%s cannot be read: %s", configv1.Label(o), item.Status.Error)
	}
	return stored, nil
}
