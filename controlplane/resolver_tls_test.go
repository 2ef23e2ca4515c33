package controlplane

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/configstore"
)

// While the files of a certificate are being replaced, what was good before stays.
func TestFilesOfCertificatesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	issue := func() certs.Pair {
		pair, err := certs.Ensure(t.TempDir(), nil, time.Now())
		require.NoError(t, err)
		return pair
	}
	write := func(name string, text []byte) { require.NoError(t, os.WriteFile(file(name), text, 0o600)) }
	first, second := issue(), issue()
	write("tls.crt", first.Certificate)
	write("tls.key", first.Key)
	write("ca.crt", first.Certificate)
	state := configstore.State{Objects: map[string]map[string]configv1.Object{
		"Certificate": {"default": &configv1.Certificate{Name: "default", ChainFile: file("tls.crt"),
			PrivateKey: &configv1.Credential{Source: &configv1.Credential_File{File: file("tls.key")}}}},
		"JobService": {"default": &configv1.JobService{Name: "default", Tls: &configv1.MutualTLS{CaFile: file("ca.crt")}}},
	}}
	r := newResolver(nil, os.LookupEnv, nil, anywhere(t, nil), newExchanger(time.Now, nil), nil, nil)
	resolve := func(t *testing.T, chain, ca []byte) (wrong []string) {
		t.Helper()
		in, errs := r.resolve(state)
		require.Len(t, in.Certificates, 1)
		require.Len(t, in.JobServices, 1)
		require.Equal(t, string(chain), in.Certificates[0].GetChain()+"\n")
		require.Equal(t, string(ca), in.JobServices[0].GetTls().GetCa()+"\n")
		for _, err := range errs {
			require.NotContains(t, err.Error(), "-----")
			wrong = append(wrong, err.Error())
		}
		return wrong
	}
	require.Empty(t, resolve(t, first.Certificate, first.Certificate))
	require.False(t, r.filesChanged())

	write("tls.crt", second.Certificate) // and its key not yet
	write("ca.crt", []byte("half of a certif"))
	require.True(t, r.filesChanged())
	require.Equal(t, []string{
		"Certificate/default: chain and private_key: tls: private key does not match public key",
		"JobService/default: tls.ca_file: holds no certificate in PEM",
	}, resolve(t, first.Certificate, first.Certificate))

	write("tls.key", second.Key)
	write("ca.crt", second.Certificate)
	require.True(t, r.filesChanged())
	require.Empty(t, resolve(t, second.Certificate, second.Certificate))

	require.NoError(t, os.Remove(file("tls.crt")))
	require.True(t, r.filesChanged())
	require.Len(t, resolve(t, second.Certificate, second.Certificate), 1)
}
