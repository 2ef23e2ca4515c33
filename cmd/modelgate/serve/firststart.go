package serve

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
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/internal/atomicfile"
	"github.com/modelgate/modelgate/internal/certs"
)

const (
	// defaultName is the name of the gateway, the certificate and the first key that run makes.
	defaultName = "default"
	// listenerName is what the control plane calls the listener of that gateway.
	listenerName = "gateway/" + defaultName
)

// configure brings the stored configuration in line with the command line and the environment, through the admin API.
// It adds what is missing: the gateway, its certificate, the built-in provider, the job service, the providers whose
// keys are in the environment, and a first key. Of objects that are there, it sets only the fields that follow each
// start. Everything else is the operator's, and stays. The files of --config come last, and may replace any of it.
func (g *gateway) configure(ctx context.Context, at netip.AddrPort, api *adminapi.Client) error {
	certificate, err := g.certificate(ctx, api)
	if err != nil {
		return fmt.Errorf("preparing the certificate: %w", err)
	}
	listener, err := following(ctx, api, &configv1.Gateway{Name: defaultName, Address: at.Addr().String(),
		Port: uint32(at.Port())}, "address", "port")
	if err != nil {
		return fmt.Errorf("preparing the gateway: %w", err)
	}
	// TLS is not for the sockets of this start.
	jobs, err := following(ctx, api, &configv1.JobService{Name: defaultName, Address: "unix://" + g.socket("jobs"),
		Listen: "unix://" + g.socket("internal")}, "address", "listen", "tls")
	if err != nil {
		return fmt.Errorf("preparing the job service: %w", err)
	}
	providers, err := g.providers(ctx, api)
	if err != nil {
		return fmt.Errorf("preparing the providers: %w", err)
	}
	objects := append(providers, listener, jobs)
	if certificate != nil {
		objects = append(objects, certificate)
	}
	if _, err := api.Apply(ctx, objects, false); err != nil {
		return fmt.Errorf("storing the configuration: %w", err)
	}
	if err := g.createFirstKey(ctx, api); err != nil {
		return fmt.Errorf("making the first key: %w", err)
	}
	return g.applyFiles(ctx, api)
}

// certificate returns the development certificate, or nil if the operator has put another one in its place.
func (g *gateway) certificate(ctx context.Context, api *adminapi.Client) (configv1.Object, error) {
	stored, err := get(ctx, api, &configv1.Certificate{Name: defaultName})
	if err != nil || stored != nil && !certs.IsDevelopment([]byte(stored.GetChain())) {
		return nil, err
	}
	pair, err := certs.Ensure(g.data.Path, g.hosts, time.Now())
	if err != nil {
		return nil, err
	}
	return following(ctx, api, &configv1.Certificate{
		Name:       defaultName,
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
func (g *gateway) providers(ctx context.Context, api *adminapi.Client) ([]configv1.Object, error) {
	var wanted []configv1.Object
	stored, err := get(ctx, api, &configv1.Provider{Name: admincli.EchoProvider})
	if err != nil {
		return nil, err
	}
	// An operator may have another provider of that name, or the same elsewhere.
	if stored == nil || stored.GetVendor() == admincli.EchoProvider && strings.HasPrefix(stored.GetEndpoint(), "unix:") {
		echo, err := following(ctx, api, &configv1.Provider{Name: admincli.EchoProvider, Vendor: admincli.EchoProvider,
			Models: []string{admincli.EchoProvider}, Endpoint: "unix://" + g.socket("echo")}, "endpoint")
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, echo)
	}
	for name, vendor := range cmdline.Vendors() {
		if vendor.CredentialEnv == "" || os.Getenv(vendor.CredentialEnv) == "" {
			continue
		}
		stored, err := get(ctx, api, &configv1.Provider{Name: name})
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
			g.log.Info("provider not added from the environment: it needs more than a credential",
				zap.String("provider", name), zap.String("variable", vendor.CredentialEnv), zap.Error(err))
			continue
		}
		if err := g.mayName.Check(p); err != nil {
			g.log.Info("provider not added from the environment: --credential-env sends its variable to other hosts",
				zap.String("provider", name), zap.Error(err))
			continue
		}
		wanted = append(wanted, p)
		g.log.Info("provider added from the environment",
			zap.String("provider", name), zap.String("variable", vendor.CredentialEnv))
	}
	return wanted, nil
}

// createFirstKey makes a key if there is no file of one. A key that was revoked does not come back: its file is
// there.
func (g *gateway) createFirstKey(ctx context.Context, api *adminapi.Client) error {
	info, err := os.Stat(g.data.File(admincli.FileKey))
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file: restore it from a copy, or move it away, and a new key is created",
			g.data.File(admincli.FileKey))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	made, err := api.Waiting(0, nil).CreateKey(ctx, adminapi.KeyRequest{DisplayName: defaultName})
	if err != nil {
		return err
	}
	return atomicfile.Write(g.data.File(admincli.FileKey), []byte(made.Key+"\n"), 0o600)
}

// checkFirstKey says where the key in the data folder lets nobody in: who reads only what is printed would look for
// the reason elsewhere.
func (g *gateway) checkFirstKey() error {
	text, err := os.ReadFile(g.data.File(admincli.FileKey))
	if err != nil {
		return err
	}
	if !g.extProc.Knows(strings.TrimSpace(string(text))) {
		g.log.Warn("the key in this file is not valid: it was revoked, is damaged, or does not belong to the configuration in etcd. "+
			"Restore it from a copy. Or move it away and restart: the gateway then creates a new key",
			zap.String("file", g.data.File(admincli.FileKey)))
	}
	return nil
}

// applyFiles applies what is in the files of --config, all of it or nothing.
func (g *gateway) applyFiles(ctx context.Context, api *adminapi.Client) error {
	if len(g.objects) == 0 {
		return nil
	}
	_, err := api.Apply(ctx, g.objects, false)
	if err != nil && !storeFull(err) {
		return fmt.Errorf("applying --config: %w", admincli.Said(err))
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
