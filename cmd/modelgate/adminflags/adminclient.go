// Package adminflags has the flags of commands that talk to the admin API: where it is and who asks, how answers are
// shown, whether a change is waited for, and limits.
package adminflags

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/datadir"
)

const (
	// AdminTimeout is longer than the admin API takes for any answer.
	AdminTimeout = 30 * time.Second
)

// GatewayFlags is the group of AdminFlags in help.
const GatewayFlags = "gateway"

// AdminFlags find the admin API of a gateway.
type AdminFlags struct {
	Data   string `group:"gateway" default:"data" env:"MODELGATE_DATA" placeholder:"DIR" help:"Data folder of a gateway on this machine (${default})."`
	Server string `group:"gateway" env:"MODELGATE_SERVER" placeholder:"URL" help:"URL of the admin API, instead of the one in the data folder."`
	Token  string `group:"gateway" env:"MODELGATE_TOKEN" placeholder:"TOKEN" help:"Admin token, instead of the one in the data folder. The token in the data folder is valid only for the gateway of that folder."`

	TokenFile string `group:"gateway" env:"MODELGATE_TOKEN_FILE" placeholder:"FILE" help:"File that contains the admin token, if --token is not given."`

	CA string `group:"gateway" env:"MODELGATE_CA" placeholder:"FILE" help:"PEM file of the authorities that the admin API's certificate is checked against, besides the system's. Default: the data folder's, unless --server is given."`

	Tenant string `group:"gateway" env:"MODELGATE_TENANT" placeholder:"NAME" help:"Organization, or ORGANIZATION/PROJECT, to act for, if you are signed in and have several memberships. Default: the first."`
}

// Client returns a client of the admin API.
func (f AdminFlags) Client() (*adminapi.Client, error) {
	c, err := f.Connect()
	if err != nil {
		return nil, err
	}
	return adminapi.NewClient(c.Server, c.Token, c.HTTP).Acting(f.Tenant), nil
}

// Connect finds the admin API, and the token for it.
func (f AdminFlags) Connect() (admincli.Conn, error) {
	conn, err := f.Reach()
	if err == nil {
		conn.Token, err = f.token()
	}
	return conn, err
}

// Reach is Connect without a token.
func (f AdminFlags) Reach() (admincli.Conn, error) {
	server, err := f.OrFile(f.Server, datadir.FileAdmin, "is the gateway running? Give its location with --data or --server")
	if err != nil {
		return admincli.Conn{}, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: AdminTimeout, ForceAttemptHTTP2: true,
		// A command ends soon, and with it its connection.
		DisableKeepAlives: true,
	}
	if strings.HasPrefix(server, "https://") || f.CA != "" {
		if transport.TLSClientConfig, err = f.TLS(); err != nil {
			return admincli.Conn{}, err
		}
	}
	return admincli.Conn{Server: strings.TrimRight(server, "/"), HTTP: &http.Client{Timeout: AdminTimeout,
		Transport: transport, CheckRedirect: adminapi.Redirected}}, nil
}

// TLS trusts the system's authorities and --ca, or that of the data folder if the address is from there too.
func (f AdminFlags) TLS() (*tls.Config, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	path := f.CA
	switch {
	case path == "" && f.Server != "":
		// what lies in a folder says nothing about elsewhere
		return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
	case path == "":
		path = filepath.Join(f.Data, certs.FileCA)
	}
	text, err := os.ReadFile(path)
	switch {
	case f.CA == "" && errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("reading certificate authorities: %w", err)
	case !pool.AppendCertsFromPEM(text):
		return nil, fmt.Errorf("reading certificate authorities: %s contains no certificate", path)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}

// token returns the admin token. The one that lies in the data folder is for the gateway of that folder, and goes
// nowhere else.
func (f AdminFlags) token() (string, error) {
	if f.Token == "" && f.TokenFile != "" {
		text, err := os.ReadFile(f.TokenFile)
		if err != nil {
			return "", fmt.Errorf("reading the admin token: %w", err)
		}
		return strings.TrimSpace(string(text)), nil
	}
	if f.Token == "" && !f.OfFolder() {
		if token, err := ReadLogins().token(f.Server); token != "" || err != nil {
			return token, err
		}
		return "",
			fmt.Errorf(
				"the admin token in %s is not for %s: sign in there with modelgate login --server %s, or give a token of that gateway with --token-file, $MODELGATE_TOKEN or --token",
				f.Data, f.Server, f.Server)
	}
	return f.OrFile(f.Token, datadir.FileAdminToken, "give the admin token with --token or $MODELGATE_TOKEN")
}

// OfFolder reports whether the gateway runs in the data folder, so that what lies there is its own.
func (f AdminFlags) OfFolder() bool {
	if f.Server == "" {
		return true
	}
	text, err := os.ReadFile(filepath.Join(f.Data, datadir.FileAdmin))
	return err == nil && strings.TrimRight(f.Server, "/") == strings.TrimRight(strings.TrimSpace(string(text)), "/")
}

// OrFile returns the flag, or what the file of the data folder holds.
func (f AdminFlags) OrFile(flag, file, hint string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	text, err := os.ReadFile(filepath.Join(f.Data, file))
	if err != nil {
		return "", fmt.Errorf("finding the gateway: %w (%s)", err, hint)
	}
	return strings.TrimSpace(string(text)), nil
}

// IDOf returns the id of a key or a token that is given by its id or by its name, which only one may have. Of another
// kind it is the name.
func IDOf(ctx context.Context, client *adminapi.Client, kind configv1.Kind, given string) (string, error) {
	what := map[string]string{configv1.KeyKind().Name: "key", TokenKind().Name: "token"}[kind.Name]
	if what == "" || given == "" || strings.HasPrefix(given, "key_") || strings.HasPrefix(given, "adm_") {
		return given, nil
	}
	items, err := admincli.ListAll(ctx, client, kind, adminapi.ListOptions{Query: given})
	if err != nil {
		return "", admincli.Said(err)
	}
	var ids []string
	for _, i := range items {
		if configv1.DisplayName(i.Object) == given {
			ids = append(ids, i.Name)
		}
	}
	switch len(ids) {
	case 1:
		return ids[0], nil
	case 0:
		return "", unknownID{fmt.Errorf("there is no %s %q", what, given)}
	}
	return "", unknownID{fmt.Errorf("several %ss have the name %q: %s; give one of these ids", what, given,
		admincli.Some(ids))}
}

// An unknownID is that no id, or no single one, belongs to a name.
type unknownID struct{ error }

// FilterID is IDOf for a filter: a name without an object is a wrong command line.
func FilterID(ctx context.Context, client *adminapi.Client, kind configv1.Kind, given string) (string, error) {
	id, err := IDOf(ctx, client, kind, given)
	if _, unknown := errors.AsType[unknownID](err); unknown {
		err = admincli.Misused("%w", err)
	}
	return id, err
}

// Change reads an object, has f change it and stores it again, unless somebody else has changed it in between.
func Change[T configv1.Object](ctx context.Context, client *adminapi.Client, name string, edit func(T)) error {
	var none T
	item, err := client.Get(ctx, configv1.KindOf(none), name)
	if err != nil {
		return admincli.Said(err)
	}
	object, ok := item.Object.(T)
	if !ok {
		return fmt.Errorf("%s %s cannot be read: %s", item.Kind.Name, name, item.Status.Error)
	}
	edit(object)
	_, err = client.Put(ctx, object, item.Status.Revision)
	return admincli.Said(err)
}

// TokenKind is the kind of admin tokens.
func TokenKind() configv1.Kind { return configv1.KindOf((*configv1.AdminToken)(nil)) }
