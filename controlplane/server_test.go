package controlplane

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
)

// A plane is a control plane that runs on an etcd of its own.
type plane struct {
	*Server
	t      *testing.T
	etcd   *etcdtest.Server
	client *clientv3.Client
	store  *configstore.Store
	root   *secret.Root
	socket string

	vendors map[string]provider.Provider
	allowed *allowed.List
	// vault and managers may be nil: there are none.
	vault, managers *secretstore.Follower
}

// anywhere lets variables, and all temporary files, be named and sent to any host.
func anywhere(t *testing.T, vendors map[string]provider.Provider, variables ...string) *allowed.List {
	t.Helper()
	for i := range variables {
		variables[i] += "=*,http://*:*"
	}
	flags := allowed.Flags{Variables: variables,
		Files: []string{filepath.Clean(os.TempDir()) + "/=*,http://*:*"}, Vault: []string{"secret/data/=*,http://*:*"},
		Managers: []string{"google/acme/=*,http://*:*"}}
	if vendors["amazon"].Cloud != "" {
		flags.Identities = []string{"aws=*,http://*:*"}
	}
	l, err := allowed.New(vendors, flags)
	require.NoError(t, err)
	return l
}

// startPlane starts a control plane after objects were stored. It ends with the test.
func startPlane(t *testing.T, objects ...configv1.Object) *plane {
	t.Helper()
	return startPlaneWith(t, nil, objects...)
}

// startPlaneWith starts one with a Vault.
func startPlaneWith(t *testing.T, v *secretstore.Follower, objects ...configv1.Object) *plane {
	t.Helper()
	return startPlaneReading(t, v, nil, objects...)
}

// startPlaneReading starts one with a Vault and with secret managers.
func startPlaneReading(t *testing.T, v, managers *secretstore.Follower, objects ...configv1.Object) *plane {
	t.Helper()
	etcd := etcdtest.New(t)
	client := etcd.Client(t)
	vendors := map[string]provider.Provider{
		"openai": {Name: "openai", CredentialHeaders: []string{"Authorization"}},
		"amazon": {Name: "amazon", Cloud: configv1.AWS},
		"cloud": {Name: "cloud", Exchange: func(_ context.Context, _ *configv1.Provider, c secret.Value) (secret.Value,
			time.Time, error) {
			if c.Reveal() == "bad" {
				return secret.Value{}, time.Time{}, errors.New("the account is locked")
			}
			return secret.New("token for " + c.Reveal()), time.Now().Add(time.Hour), nil
		}},
	}
	store := configstore.New(client, func(o configv1.Object) error {
		if errs := configv1.ValidateStored(o, func(name string) (configv1.Vendor, bool) {
			_,
				ok := vendors[name]
			return configv1.Vendor{}, ok
		}); len(errs) > 0 {
			return errs
		}
		return nil
	}, zap.NewNop())
	// The path of a Unix socket is short.
	dir, err := os.MkdirTemp("", "cp")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	root, err := secret.LoadRoot(filepath.Join(dir, "root"))
	require.NoError(t, err)
	p := &plane{t: t, etcd: etcd, client: client, store: store, root: root, socket: filepath.Join(dir, "xds.sock"),
		vault: v, managers: managers}
	for _, o := range objects {
		p.put(o)
	}
	p.vendors, p.allowed = vendors, anywhere(t, vendors, "CONTROLPLANE_TEST_KEY", "CONTROLPLANE_TEST_BAD")
	p.start()
	return p
}

// start starts the server on the plane's socket.
func (p *plane) start() {
	p.t.Helper()
	l, err := net.Listen("unix", p.socket)
	require.NoError(p.t, err)
	p.Server, err = New(Config{
		Store: p.store, Etcd: p.client, XDS: l, Root: p.root, Providers: p.vendors,
		SystemCA: "/etc/ssl/certs/ca-certificates.crt",
		Logger:   zap.NewNop(), Registerer: prometheus.NewRegistry(), FileInterval: 10 * time.Millisecond,
		Allowed: p.allowed, Vault: p.vault, SecretManagers: p.managers,
	})
	require.NoError(p.t, err)
	require.Error(p.t, p.Ready())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	p.t.Cleanup(func() { cancel(); require.NoError(p.t, <-ended) })
}

// another starts another control plane on the same etcd.
func (p *plane) another() *plane {
	p.t.Helper()
	other := *p
	other.socket = p.socket + "2"
	other.start()
	return &other
}

func (p *plane) put(o configv1.Object) int64 {
	p.t.Helper()
	revision, err := p.store.Put(p.t.Context(), o, configstore.AnyRevision)
	require.NoError(p.t, err)
	return revision
}

// A subscriber is a client of one type.
type subscriber[M proto.Message] struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
	has    map[string]M
	// refuses, if it is not nil, returns why a response is refused, or "".
	refuses func(*discoveryv3.DeltaDiscoveryResponse) string
	// version is that of the last response.
	version string
}

// subscribe connects as a client of the role, and takes whatever comes of M's type.
func subscribe[M proto.Message](p *plane, role string) *subscriber[M] {
	p.t.Helper()
	conn, err := grpc.NewClient("unix://"+p.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	p.t.Cleanup(cancel)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx,
		grpc.WaitForReady(true))
	require.NoError(p.t, err)
	var m M
	require.NoError(p.t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "test", Cluster: role}, TypeUrl: xds.TypeURL(m),
	}))
	return &subscriber[M]{t: p.t, stream: stream, has: map[string]M{}}
}

// await takes responses until ok holds.
func (s *subscriber[M]) await(ok func() bool) {
	s.t.Helper()
	for !ok() {
		r, err := s.stream.Recv()
		require.NoError(s.t, err, "it has %v", s.has)
		if s.refuses != nil {
			if why := s.refuses(r); why != "" {
				require.NoError(s.t, s.stream.Send(&discoveryv3.DeltaDiscoveryRequest{
					TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(), ErrorDetail: &rpcstatus.Status{Message: why}}))
				continue
			}
		}
		for _, i := range r.GetResources() {
			m, err := i.GetResource().UnmarshalNew()
			require.NoError(s.t, err)
			s.has[i.GetName()] = m.(M)
		}
		for _, name := range r.GetRemovedResources() {
			delete(s.has, name)
		}
		s.version = r.GetSystemVersionInfo()
		require.NoError(s.t, s.stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(),
			ResponseNonce: r.GetNonce()}))
	}
}

func openai(name string, c *configv1.Credential) *configv1.Provider {
	return &configv1.Provider{Name: name, Vendor: "openai", Endpoint: "http://127.0.0.1:1", Credential: c}
}

func fromFile(path string) *configv1.Credential {
	return &configv1.Credential{Source: &configv1.Credential_File{File: path}}
}

func TestCredentialsAreResolvedFromEverySource(t *testing.T) {
	t.Setenv("CONTROLPLANE_TEST_KEY", " from-env\n")
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte("from-file\n"), 0o600))
	p := startPlane(t,
		openai("env", &configv1.Credential{Source: &configv1.Credential_Env{Env: "CONTROLPLANE_TEST_KEY"}}),
		openai("file", fromFile(path)),
		openai("none", nil),
	)
	sealed := p.root.Sealer().Seal("Provider", "sealed", "credential", secret.New("from-etcd"))
	revision := p.put(openai("sealed", &configv1.Credential{Source: &configv1.Credential_Sealed{Sealed: sealed}}))

	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return len(s.has) == 4 })
	for name, want := range map[string]string{"env": "from-env", "file": "from-file", "none": "", "sealed": "from-etcd"} {
		require.Equal(t, want, s.has[name].GetCredential(), name)
		require.Nil(t, s.has[name].GetProvider().GetCredential(), name)
	}
	require.Equal(t, strconv.FormatInt(revision, 10), s.version)
	require.NoError(t, p.Ready())
	require.Equal(t, revision, p.Status().Revision)
}

func TestSecretsOfWebhooksReachTheJobServiceAlone(t *testing.T) {
	const first, second = "whsec_Zmlyc3RmaXJzdGZpcnN0Zmlyc3RmaXJzdA==", "whsec_c2Vjb25kc2Vjb25kc2Vjb25kc2Vjb25k"
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(first+"\n"), 0o600))
	p := startPlane(t)
	hook := func(name string, secret *configv1.Credential) *configv1.Webhook {
		return &configv1.Webhook{Name: name, Url: "https://hooks.test/", Secret: secret}
	}
	sealed := p.root.Sealer().Seal("Webhook", "sealed", "secret", secret.New(second))
	p.put(hook("sealed", &configv1.Credential{Source: &configv1.Credential_Sealed{Sealed: sealed}}))
	p.put(hook("file", fromFile(path)))
	p.put(hook("never", fromFile(path+".missing")))
	s := subscribe[*configv1.Webhook](p, envoy.RoleJobs)
	s.await(func() bool { return len(s.has) == 2 })
	require.Equal(t, second, s.has["sealed"].GetSecret().GetValue())
	require.Equal(t, first, s.has["file"].GetSecret().GetValue())
	require.Eventually(t, func() bool {
		return strings.Contains(p.ObjectError("Webhook", "never"), "secret: reading the file")
	}, 10*time.Second, 10*time.Millisecond)

	// It stays as it was where it cannot be had, or is none, and is taken again when it changes.
	require.NoError(t, os.WriteFile(path, []byte("not a secret of webhooks"), 0o600))
	require.Eventually(t, func() bool { return strings.Contains(p.ObjectError("Webhook", "file"), "whsec_") },
		10*time.Second, 10*time.Millisecond)
	require.NoError(t, os.Remove(path))
	require.Eventually(t, func() bool { return strings.Contains(p.ObjectError("Webhook", "file"), "reading the file") },
		10*time.Second, 10*time.Millisecond)
	p.put(hook("another", &configv1.Credential{Source: &configv1.Credential_Sealed{Sealed: p.root.Sealer().Seal("Webhook",
		"another", "secret", secret.New(second))}}))
	s.await(func() bool { return s.has["another"] != nil })
	require.Equal(t, first, s.has["file"].GetSecret().GetValue())
	require.NoError(t, os.WriteFile(path, []byte(second), 0o600))
	s.await(func() bool { return s.has["file"].GetSecret().GetValue() == second })

	// One that is disabled goes, also where its secret cannot be had.
	require.NoError(t, os.Remove(path))
	off := hook("file", fromFile(path))
	off.Disabled = true
	p.put(off)
	s.await(func() bool { return s.has["file"] == nil })

	other := subscribe[*configv1.Webhook](p, envoy.RoleExtProc)
	other.await(func() bool { return other.version != "" })
	require.Empty(t, other.has)
}

func TestTheJobServiceGetsProvidersWithoutCredentials(t *testing.T) {
	t.Setenv("CONTROLPLANE_TEST_KEY", "from-env")
	p := startPlane(t, openai("a", &configv1.Credential{Source: &configv1.Credential_Env{Env: "CONTROLPLANE_TEST_KEY"}}))
	s := subscribe[*configv1.Provider](p, envoy.RoleJobs)
	s.await(func() bool { return len(s.has) == 1 })
	require.Nil(t, s.has["a"].GetCredential())
	require.Equal(t, "openai", s.has["a"].GetVendor())
}

func TestACredentialThatIsExchangedReachesTheDataPlaneAsAToken(t *testing.T) {
	t.Setenv("CONTROLPLANE_TEST_KEY", "account")
	t.Setenv("CONTROLPLANE_TEST_BAD", "bad")
	at := func(name, env string) *configv1.Provider {
		return &configv1.Provider{Name: name, Vendor: "cloud", Endpoint: "http://127.0.0.1:1",
			Credential: &configv1.Credential{Source: &configv1.Credential_Env{Env: env}}}
	}
	p := startPlane(t, at("good", "CONTROLPLANE_TEST_KEY"), at("bad", "CONTROLPLANE_TEST_BAD"), openai("other", nil))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool {
		return s.has["good"].GetCredential() != "" && s.has["bad"] != nil && s.has["other"] != nil
	})
	require.Equal(t, "token for account", s.has["good"].GetCredential())
	require.True(t, s.has["bad"].GetWaiting())
	require.Empty(t, s.has["bad"].GetCredential())
	require.Eventually(t, func() bool { return p.ObjectError("Provider", "bad") == "credential: the account is locked" },
		10*time.Second, 10*time.Millisecond)
	require.Empty(t, p.ObjectError("Provider", "good"))
}

func TestTheDataPlaneGetsThePepper(t *testing.T) {
	p := startPlane(t)
	s := subscribe[*configv1.Settings](p, envoy.RoleExtProc)
	s.await(func() bool { return len(s.has) == 1 })
	require.Equal(t, p.root.KeyPepper(), s.has["default"].GetKeyPepper())
}

// TestResponsesAreStoredOnlyWhereTheOperatorSaysSo: the job service gets the key for them, and the ext_proc service
// sends them there, as long as the JobService has the setting.
func TestResponsesAreStoredOnlyWhereTheOperatorSaysSo(t *testing.T) {
	local := func(stored *configv1.StoredResponses) *configv1.JobService {
		return &configv1.JobService{Name: "default", Address: "unix:///run/jobs.sock", Listen: "unix:///run/internal.sock",
			StoredResponses: stored}
	}
	p := startPlane(t, local(&configv1.StoredResponses{}))
	settings := subscribe[*configv1.Settings](p, envoy.RoleExtProc)
	jobs := subscribe[*configv1.ResponseStore](p, envoy.RoleJobs)
	settings.await(func() bool { return settings.has["default"].GetStoresResponses() })
	jobs.await(func() bool { return jobs.has["default"].GetRetention().AsDuration() == 30*24*time.Hour })
	require.Equal(t, p.root.ResponseKey(), jobs.has["default"].GetKey())

	p.put(local(&configv1.StoredResponses{Retention: durationpb.New(2 * time.Hour)}))
	jobs.await(func() bool { return jobs.has["default"].GetRetention().AsDuration() == 2*time.Hour })
	p.put(local(nil))
	settings.await(func() bool { return !settings.has["default"].GetStoresResponses() })
	jobs.await(func() bool { return len(jobs.has) == 0 })
}

func TestACredentialFileIsReadAgainWhenItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	p := startPlane(t, openai("a", fromFile(path)))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return s.has["a"].GetCredential() == "old" })

	require.NoError(t, os.WriteFile(path+".new", []byte("renewed"), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	s.await(func() bool { return s.has["a"].GetCredential() == "renewed" })
	require.Empty(t, p.ObjectError("Provider", "a"))
}

// Kubernetes replaces what is mounted of a Secret by another target of a symbolic link of the folder.
func TestAMountedSecretIsFollowed(t *testing.T) {
	folder := t.TempDir()
	swap := func(version, key string) {
		require.NoError(t, os.Mkdir(filepath.Join(folder, version), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, version, "key"), []byte(key), 0o600))
		require.NoError(t, os.Symlink(version, filepath.Join(folder, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(folder, "..data_tmp"), filepath.Join(folder, "..data")))
	}
	swap("..1", "sk-1")
	require.NoError(t, os.Symlink("..data/key", filepath.Join(folder, "key")))
	p := startPlane(t, openai("a", fromFile(filepath.Join(folder, "key"))))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return s.has["a"].GetCredential() == "sk-1" })
	swap("..2", "sk-2")
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "..1")))
	s.await(func() bool { return s.has["a"].GetCredential() == "sk-2" })
}

func TestACredentialThatCannotBeHadLeavesTheProviderAsItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte("good"), 0o600))
	p := startPlane(t, openai("a", fromFile(path)), openai("never", fromFile(path+".missing")))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return s.has["a"].GetCredential() == "good" })
	require.NotContains(t, s.has, "never")
	require.Contains(t, p.ObjectError("Provider", "never"), "credential: reading the file")

	require.NoError(t, os.Remove(path))
	require.Eventually(t, func() bool { return p.ObjectError("Provider", "a") != "" }, 10*time.Second,
		10*time.Millisecond)
	p.put(openai("b", nil))
	s.await(func() bool { return s.has["b"] != nil })
	require.Equal(t, "good", s.has["a"].GetCredential())

	require.NoError(t, os.WriteFile(path, []byte("back again"), 0o600))
	s.await(func() bool { return s.has["a"].GetCredential() == "back again" })
}

func TestGarbageInEtcdIsReportedAndTheLastGoodFormStays(t *testing.T) {
	p := startPlane(t, openai("a", nil))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return s.has["a"] != nil })
	_, err := p.client.Put(t.Context(), "/modelgate/v1/providers/a", "garbage")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.ObjectError("Provider", "a") != "" }, 10*time.Second,
		10*time.Millisecond)
	p.put(openai("b", nil))
	s.await(func() bool { return s.has["b"] != nil })
	require.Contains(t, s.has, "a")
}

func TestTheLastConfigurationIsServedWhileEtcdIsAway(t *testing.T) {
	t.Parallel()
	p := startPlane(t, openai("a", nil))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return s.has["a"] != nil })
	p.etcd.Stop()
	late := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	late.await(func() bool { return late.has["a"] != nil })
	require.NoError(t, p.Ready())
	p.etcd.Start(t)
	p.put(openai("b", nil))
	late.await(func() bool { return late.has["b"] != nil })
}

func TestXDSThatOthersCanReachNeedsTLS(t *testing.T) {
	for address, ok := range map[string]bool{"127.0.0.1:0": true, "0.0.0.0:0": false} {
		l, err := net.Listen("tcp", address)
		require.NoError(t, err)
		for _, c := range []credentials.TransportCredentials{nil, credentials.NewTLS(nil)} {
			_, err = New(Config{XDS: l, Credentials: c, Root: &secret.Root{}, Logger: zap.NewNop(),
				Registerer: prometheus.NewRegistry()})
			require.Equal(t, ok || c != nil, err == nil, "%s: %v", address, err)
		}
		require.NoError(t, l.Close())
	}
}

func TestAServerThatStopsBeforeItServesClosesItsListener(t *testing.T) {
	etcd := etcdtest.New(t)
	client := etcd.Client(t)
	etcd.Stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, err := New(Config{
		Store: configstore.New(client, func(configv1.Object) error { return nil }, zap.NewNop()),
		XDS:   l, Root: &secret.Root{}, Logger: zap.NewNop(), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.NoError(t, s.Run(ctx))
	require.Error(t, s.Ready())
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}
