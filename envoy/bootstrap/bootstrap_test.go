package bootstrap_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/internal/golden"
)

func sockets() bootstrap.Options {
	return bootstrap.Options{
		NodeID:      "edge-1",
		AdminSocket: "/run/modelgate/envoy-admin.sock",
		ExtProc:     bootstrap.Addresses{{Pipe: "/run/modelgate/extproc.sock"}},
		XDS:         bootstrap.Address{Pipe: "/run/modelgate/xds.sock"},
	}
}

func mutualTLS() bootstrap.Options {
	o := sockets()
	o.ExtProc = bootstrap.Addresses{{Host: "127.0.0.1", Port: 9001}}
	o.XDS = bootstrap.Address{Host: "controlplane.modelgate.svc", Port: 9000}
	o.XDSTLS = &bootstrap.TLS{
		CA:          "/etc/modelgate/ca.crt",
		Certificate: "/etc/modelgate/tls.crt",
		Key:         "/etc/modelgate/tls.key",
		ServerName:  "controlplane.modelgate.svc",
	}
	o.MaxHeapBytes = 2 << 30
	o.MaxConnections = 10_000
	return o
}

func TestYAML(t *testing.T) {
	cases := map[string]bootstrap.Options{
		"sockets":    sockets(),
		"mutual-tls": mutualTLS(),
	}
	for name, options := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := bootstrap.YAML(options)
			require.NoError(t, err)
			golden.Bytes(t, filepath.Join("testdata", name+".yaml"), got)
		})
	}
}

// The files hold no key, and the bootstrap names the files and not the certificates.
func TestCertificatesThatAreFollowed(t *testing.T) {
	o := mutualTLS()
	o.SecretsDir = "/run/modelgate"
	o.ExtProcTLS = &bootstrap.TLS{CA: "/etc/mesh/ca.crt", Certificate: "/etc/mesh/tls.crt", Key: "/etc/mesh/tls.key",
		ServerName: "extproc"}
	got, err := bootstrap.YAML(o)
	require.NoError(t, err)
	require.NotContains(t, string(got), "tls.crt")
	golden.Bytes(t, filepath.Join("testdata", "followed", "envoy.yaml"), got)
	secrets, err := bootstrap.Secrets(o)
	require.NoError(t, err)
	require.Len(t, secrets, 4)
	for name, text := range secrets {
		require.Contains(t, string(got), "/run/modelgate/"+name)
		golden.Bytes(t, filepath.Join("testdata", "followed", name), text)
	}
	secrets, err = bootstrap.Secrets(mutualTLS())
	require.NoError(t, err)
	require.Empty(t, secrets, "without a folder there are none")
}

func TestBuildRefuses(t *testing.T) {
	cases := map[string]struct {
		change func(*bootstrap.Options)
		want   string
	}{
		"no node id":          {func(o *bootstrap.Options) { o.NodeID = "" }, "node id"},
		"no admin socket":     {func(o *bootstrap.Options) { o.AdminSocket = "" }, "admin socket"},
		"no ext_proc address": {func(o *bootstrap.Options) { o.ExtProc = nil }, "ext_proc cluster"},
		"a control plane without port": {
			func(o *bootstrap.Options) { o.XDS.Port = 0 }, "control plane's cluster",
		},
		"TLS without an authority": {func(o *bootstrap.Options) { o.XDSTLS.CA = "" }, "the server's authority"},
		"TLS on a Unix socket": {
			func(o *bootstrap.Options) { o.XDS = bootstrap.Address{Pipe: "/xds.sock"} }, "takes no TLS",
		},
		"TLS to an ext_proc service without a name": {
			func(o *bootstrap.Options) { o.ExtProcTLS = &bootstrap.TLS{CA: "a", Certificate: "b", Key: "c"} },
			"the server's name",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			options := mutualTLS()
			c.change(&options)
			_, err := bootstrap.Build(options)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestParseAddress(t *testing.T) {
	good := map[string]bootstrap.Address{
		"unix:///run/x.sock": {Pipe: "/run/x.sock"},
		"127.0.0.1:9000":     {Host: "127.0.0.1", Port: 9000},
		"[::1]:9000":         {Host: "::1", Port: 9000},
		"name.svc:1":         {Host: "name.svc", Port: 1},
	}
	for text, want := range good {
		got, err := bootstrap.ParseAddress(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "host", ":9000", "host:0", "host:65536", "host:http", "unix://x.sock", "unix:/x"} {
		_, err := bootstrap.ParseAddress(text)
		require.Error(t, err, text)
	}
}
