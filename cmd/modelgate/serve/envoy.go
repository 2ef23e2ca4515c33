package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/controlplane/firststart"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/internal/atomicfile"
)

// envoyConfig is the name of the file that Envoy is started with.
const envoyConfig = "envoy.yaml"

// EnvoyCmd is the command envoy.
type EnvoyCmd struct {
	Run       envoyRunCmd  `cmd:"" help:"Run Envoy as a child process: start, monitor, drain and stop it."`
	Bootstrap bootstrapCmd `cmd:"" help:"Print a bootstrap configuration for Envoy."`
	Snippet   snippetCmd   `cmd:"" help:"Print the configuration that your own Envoy needs to call the ext_proc service."`
}

// envoyFlags are those that differ from one Envoy to the next.
type envoyFlags struct {
	Node           string `default:"${hostname}" env:"MODELGATE_NODE" help:"Name of this Envoy."`
	Extproc        string `default:"unix:///run/modelgate/extproc.sock" help:"Address of the ext_proc service: unix:///path or host:port. The name may lead to several processes, and several host:port stand after commas; these processes need --peers. Without --extproc-cert it has no TLS: use such a port only if nothing else can reach it."`
	MaxHeap        uint64 `default:"0" help:"Heap limit in bytes. Envoy refuses new requests at 95 % of it. 0: in the command run, three quarters of the memory of the control group or the machine; otherwise no limit."`
	MaxConnections int64  `default:"50000" help:"Maximum number of downstream connections."`

	ExtprocTLS extprocClientFlags `embed:"" prefix:"extproc-"`
	XDS        xdsFlags           `embed:"" prefix:"xds-"`
}

type extprocClientFlags struct {
	CA   string `help:"PEM file of the CA certificates that verify the ext_proc service. If it is set, the connection uses mutual TLS."`
	Cert string `help:"PEM file of this Envoy's client certificate for the ext_proc service."`
	Key  string `help:"${key}"`
	Name string `help:"DNS name in the ext_proc service's certificate. Default: the host of the address."`
}

// options returns what the flags say. Envoy follows the certificates by files in secrets; if that is empty, it
// reads them once.
func (f envoyFlags) options(adminSocket, secrets string) (o bootstrap.Options, err error) {
	o = bootstrap.Options{
		NodeID: f.Node, AdminSocket: adminSocket, MaxHeapBytes: f.MaxHeap, MaxConnections: f.MaxConnections,
		SecretsDir: secrets,
	}
	if o.ExtProc, err = bootstrap.ParseAddresses(f.Extproc); err != nil {
		return o, err
	}
	if o.XDS, err = bootstrap.ParseAddress(f.XDS.Address); err != nil {
		return o, err
	}
	t := f.ExtprocTLS
	if t.Name == "" {
		t.Name = o.ExtProc[0].Host
	}
	if o.ExtProcTLS, err = clientTLS("--extproc-", t.Cert, t.Key, t.CA, t.Name); err != nil {
		return o, err
	}
	o.XDSTLS, err = clientTLS("--xds-", f.XDS.Cert, f.XDS.Key, f.XDS.CA, f.XDS.serverName(o.XDS.Host))
	return o, err
}

// clientTLS returns nil if no file is given. The paths become absolute: Envoy may be started in another folder.
func clientTLS(prefix, certificate, key, ca, name string) (*bootstrap.TLS, error) {
	given, err := allOrNone(prefix, certificate, key, ca)
	if err != nil || !given {
		return nil, err
	}
	t := &bootstrap.TLS{CA: ca, Certificate: certificate, Key: key, ServerName: name}
	for _, path := range []*string{&t.CA, &t.Certificate, &t.Key} {
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, fmt.Errorf("finding %s: %w", *path, err)
		}
	}
	return t, nil
}

// An envoyFiles is what an Envoy is started with.
type envoyFiles struct {
	bootstrap []byte
	secrets   map[string][]byte // by which it follows its certificates, by name of the file
}

// files returns what Envoy is started with: what text makes of the options. In dir, if it is not empty, the files
// will be.
func (f envoyFlags) files(dir, adminSocket string, text func(bootstrap.Options) ([]byte, error)) (files envoyFiles,
	err error) {
	o, err := f.options(adminSocket, dir)
	if err != nil {
		return files, err
	}
	if files.bootstrap, err = text(o); err != nil {
		return files, err
	}
	files.secrets, err = bootstrap.Secrets(o)
	return files, err
}

// write writes the files into a folder, which is made if it is missing, and returns the path of the bootstrap.
func (f envoyFiles) write(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of the bootstrap: %w", err)
	}
	config := filepath.Join(dir, envoyConfig)
	err := atomicfile.Write(config, f.bootstrap, 0o600)
	for name, text := range f.secrets {
		err = errors.Join(err, atomicfile.Write(filepath.Join(dir, name), text, 0o600))
	}
	return config, err
}

// outputFolder is where a command writes what Envoy is started with.
type outputFolder struct {
	Output string `placeholder:"DIR" help:"Folder for envoy.yaml and for the files with which Envoy reloads renewed certificates. Give the path that Envoy sees. Default: print the bootstrap; Envoy then reads its certificates once."`
}

func (d outputFolder) emit(stdout io.Writer, f envoyFlags, adminSocket string,
	text func(bootstrap.Options) ([]byte, error)) error {
	if d.Output == "" {
		files, err := f.files("", adminSocket, text)
		if err == nil {
			_, err = stdout.Write(files.bootstrap)
		}
		return err
	}
	dir, err := filepath.Abs(d.Output)
	if err != nil {
		return fmt.Errorf("finding %s: %w", d.Output, err)
	}
	files, err := f.files(dir, adminSocket, text)
	if err != nil {
		return err
	}
	config, err := files.write(dir)
	if err == nil {
		_, err = fmt.Fprintln(stdout, config)
	}
	return err
}

type bootstrapCmd struct {
	envoyFlags   `embed:""`
	outputFolder `embed:""`
	AdminSocket  string `default:"/run/modelgate/envoy-admin.sock" help:"Unix socket of Envoy's admin interface."`
}

// Run prints the bootstrap as YAML, or writes it into a folder.
func (c *bootstrapCmd) Run(_ context.Context, stdout io.Writer) error {
	return c.emit(stdout, c.envoyFlags, c.AdminSocket, bootstrap.YAML)
}

type snippetCmd struct {
	envoyFlags   `embed:""`
	outputFolder `embed:""`
	Gateway      string `type:"existingfile" placeholder:"FILE" help:"YAML file of the Gateway object that defines the routes of the listener. Default: the gateway default, on port 8443."`
}

// Help is shown below the flags' summary.
func (snippetCmd) Help() string {
	return "For an existing Envoy. It needs the clusters extproc, xds and dead_end, the node, the ADS stream to the control plane with clusters from it, " +
		"the runtime and client settings, and the listener. You may change the listener's address and TLS. Also apply the Gateway object."
}

// Run prints the parts of a configuration as YAML, or writes them into a folder.
func (c *snippetCmd) Run(_ context.Context, stdout io.Writer) error {
	g, err := c.gateway()
	if err != nil {
		return err
	}
	return c.emit(stdout, c.envoyFlags, "", func(o bootstrap.Options) ([]byte, error) {
		return bootstrap.PartsYAML(o, xds.GatewayListener(g))
	})
}

func (c *snippetCmd) gateway() (*configv1.Gateway, error) {
	if c.Gateway == "" {
		return &configv1.Gateway{Name: firststart.Name, Port: 8443}, nil
	}
	docs, err := cmdline.FileFlags{Filename: []string{c.Gateway}}.Read(nil)
	if err != nil {
		return nil, err
	}
	var found *configv1.Gateway
	for _, o := range cmdline.ObjectsOf(docs) {
		if g, ok := o.(*configv1.Gateway); ok && found == nil {
			found = g
		} else if ok {
			return nil, fmt.Errorf("%s has more than one Gateway", c.Gateway)
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%s has no Gateway", c.Gateway)
	}
	return found, nil
}
