package main

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

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/internal/atomicfile"
	"github.com/modelgate/modelgate/internal/certs"
)

const (
	// defaultName is that of the gateway, the certificate and the first key that run makes.
	defaultName = "default"
	// listenerName is what the control plane calls the listener of that gateway.
	listenerName = "gateway/" + defaultName
)

// configure brings the stored configuration in line with the command line and the environment, through the admin API.
// At each start it sets the listener, its certificate, the built-in provider and the job service; where they are
// missing, it adds the providers whose keys are in the environment, and a first key. The files of --config come last,
// and may replace any of it.
func (g *gateway) configure(ctx context.Context, at netip.AddrPort, api *adminapi.Client) error {
	certificate, err := g.certificate(ctx, api)
	if err != nil {
		return fmt.Errorf("preparing the certificate: %w", err)
	}
	listener, err := g.listener(ctx, at, api)
	if err != nil {
		return fmt.Errorf("preparing the gateway: %w", err)
	}
	providers, err := g.providers(ctx, api)
	if err != nil {
		return fmt.Errorf("preparing the providers: %w", err)
	}
	objects := append(providers, listener, &configv1.JobService{
		Name: defaultName, Address: "unix://" + g.socket("jobs"), Listen: "unix://" + g.socket("internal"),
	})
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

// certificate returns the development certificate, or nil where the operator has put another one in its place.
func (g *gateway) certificate(ctx context.Context, api *adminapi.Client) (configv1.Object, error) {
	stored, err := get(ctx, api, &configv1.Certificate{Name: defaultName})
	if err != nil || stored != nil && !certs.IsDevelopment([]byte(stored.GetChain())) {
		return nil, err
	}
	pair, err := certs.Ensure(g.data.path, g.hosts, time.Now())
	if err != nil {
		return nil, err
	}
	return &configv1.Certificate{
		Name:       defaultName,
		Chain:      string(pair.Certificate),
		PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{Value: string(pair.Key)}},
	}, nil
}

// listener returns the default gateway with the address of --listen, and otherwise as it is stored.
func (g *gateway) listener(ctx context.Context, at netip.AddrPort, api *adminapi.Client) (configv1.Object, error) {
	stored, err := get(ctx, api, &configv1.Gateway{Name: defaultName})
	if err != nil {
		return nil, err
	}
	if stored == nil {
		stored = &configv1.Gateway{Name: defaultName}
	}
	wanted := proto.CloneOf(stored)
	wanted.Address, wanted.Port = at.Addr().String(), uint32(at.Port())
	return wanted, nil
}

// providers returns the built-in provider, whose socket can be elsewhere at each start, and one for each vendor whose
// own variable for a key is set and of whose name there is none.
func (g *gateway) providers(ctx context.Context, api *adminapi.Client) ([]configv1.Object, error) {
	var wanted []configv1.Object
	echo, err := get(ctx, api, &configv1.Provider{Name: admincli.EchoProvider})
	if err != nil {
		return nil, err
	}
	if echo == nil {
		echo = &configv1.Provider{Name: admincli.EchoProvider, Vendor: admincli.EchoProvider,
			Models: []string{admincli.EchoProvider}}
	}
	if echo.GetVendor() == admincli.EchoProvider { // and not the operator's own, of that name
		echo = proto.CloneOf(echo)
		echo.Endpoint = "unix://" + g.socket("echo")
		wanted = append(wanted, echo)
	}
	for name, vendor := range vendors() {
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

// createFirstKey makes a key where there is no file of one. A key that was revoked does not come back: its file is
// there.
func (g *gateway) createFirstKey(ctx context.Context, api *adminapi.Client) error {
	info, err := os.Stat(g.data.file(admincli.FileKey))
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file: restore it from a copy, or move it away, and a new key is created",
			g.data.file(admincli.FileKey))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	made, err := api.Waiting(0, nil).CreateKey(ctx, adminapi.KeyRequest{DisplayName: defaultName})
	if err != nil {
		return err
	}
	return atomicfile.Write(g.data.file(admincli.FileKey), []byte(made.Key+"\n"), 0o600)
}

// checkFirstKey says where the key in the data folder lets nobody in: who reads only what is printed would look for
// the reason elsewhere.
func (g *gateway) checkFirstKey() error {
	text, err := os.ReadFile(g.data.file(admincli.FileKey))
	if err != nil {
		return err
	}
	if !g.extProc.Knows(strings.TrimSpace(string(text))) {
		g.log.Warn("the key in this file is not valid: it was revoked, is damaged, or does not belong to the configuration in etcd. "+
			"Restore it from a copy. Or move it away and restart: the gateway then creates a new key",
			zap.String("file", g.data.file(admincli.FileKey)))
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

// get returns the stored object that has the type and the name of o, or nil where there is none.
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
