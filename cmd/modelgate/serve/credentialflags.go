package serve

import (
	"crypto/tls"
	"path"
	"strings"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/controlplane/cloud"
	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/controlplane/vault"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/proc"
	"github.com/modelgate/modelgate/internal/provider/all"
)

// credentialFlags say which variables, files, secrets elsewhere and identities the configuration may name, to be read
// or to be written.
type credentialFlags struct {
	CredentialEnv           []string `sep:"none" placeholder:"NAME=HOST,..." help:"Environment variable that objects may name as a credential, and the hosts to which it may be sent: api.example.com, *.example.com, api.example.com:8443, http://127.0.0.1:8000 or unix:///path. Without hosts, it is for certificates. Default: each vendor's own variable, for the vendor's own hosts. A flag for such a variable replaces these hosts. May be given more than once."`
	CredentialFile          []string `sep:"none" default:"/etc/modelgate/" placeholder:"PATH=HOST,..." help:"The same for a file, or, with a trailing slash, for a folder and everything below it. May be given more than once."`
	CredentialVault         []string `sep:"none" placeholder:"PATH=HOST,..." help:"The same for a secret in Vault or OpenBao, by its path below /v1/ such as secret/data/openai, or, with a trailing slash or *, for all paths that begin so. May be given more than once."`
	CredentialSecretManager []string `sep:"none" placeholder:"NAME=HOST,..." help:"The same for a secret in AWS Secrets Manager, Google Secret Manager or Azure Key Vault: aws/REGION/NAME, google/PROJECT/NAME or azure/VAULT/NAME, or, with a trailing slash or *, for all names that begin so. The process reads it with its identity in that cloud. May be given more than once."`
	CredentialIdentity      []string `sep:"none" placeholder:"CLOUD[:AS][=HOST,...]" help:"Identity of the process with which providers may obtain tokens in place of a key: aws, google or azure, alone or with a role, service account or client ID to act as. Without hosts, it is for those of the cloud's vendors. May be given more than once."`
	AuditFile               []string `sep:"none" placeholder:"PATH" help:"File to which an AuditSink may append the audit log. May be given more than once."`

	Vault vaultFlags `embed:"" prefix:"vault-"`
}

func (f credentialFlags) allowed() (*allowed.List, error) {
	if len(f.CredentialVault) > 0 && f.Vault.Addr == "" {
		return nil, admincli.Misused("--credential-vault names secrets in Vault, and needs --vault-addr")
	}
	if err := f.Vault.check(); err != nil {
		return nil, err
	}
	list, err := allowed.New(all.Providers(), allowed.Flags{Variables: f.CredentialEnv, Files: f.CredentialFile,
		Vault: f.CredentialVault, Managers: f.CredentialSecretManager, Identities: f.CredentialIdentity})
	if err == nil {
		list, err = list.WithAuditFiles(f.AuditFile)
	}
	if err != nil {
		return nil, admincli.Misused("%w", err)
	}
	return list, nil
}

// managers returns what reads secrets from secret managers, or nil if none may be named.
func (f credentialFlags) managers(log *zap.Logger) *secretstore.Follower {
	if len(f.CredentialSecretManager) == 0 {
		return nil
	}
	return secretstore.New(secretstore.Options{Store: cloud.NewSecrets(&cloud.Clouds{}), Log: log.Named("secrets")})
}

// vaultFlags say where HashiCorp Vault or OpenBao is, and how to sign in to it.
type vaultFlags struct {
	Addr      string `placeholder:"URL" help:"URL of the HashiCorp Vault or OpenBao that credentials can be in: https, or http to a loopback address."`
	TokenFile string `placeholder:"FILE" help:"File with a token for Vault. The process reads it again when it changes. Something else, such as Vault Agent, must renew the token."`
	Auth      string `placeholder:"MOUNT" default:"kubernetes" help:"Mount of the auth method at which the process signs in to Vault with --vault-role."`
	Role      string `placeholder:"ROLE" help:"Role of Vault that the process signs in to, in place of --vault-token-file. It renews its token."`
	JWTFile   string `name:"jwt-file" placeholder:"FILE" default:"/var/run/secrets/kubernetes.io/serviceaccount/token" help:"File with the JWT for the sign-in, such as the token of a Kubernetes service account."`
	Namespace string `placeholder:"NAME" help:"Namespace in Vault."`
	CA        string `placeholder:"FILE" help:"PEM file of the CA certificates that verify Vault. The process reloads it after a renewal. Default: those of the system."`
}

func (f vaultFlags) check() error {
	if f.Addr == "" {
		if f.TokenFile != "" || f.Role != "" || f.Namespace != "" || f.CA != "" {
			return admincli.Misused("--vault-token-file, --vault-role, --vault-namespace and --vault-ca need --vault-addr")
		}
		return nil
	}
	if (f.TokenFile == "") == (f.Role == "") {
		return admincli.Misused("--vault-addr needs one of --vault-token-file and --vault-role")
	}
	if f.Auth == "" || path.Clean("/"+f.Auth) != "/"+f.Auth || strings.ContainsAny(f.Auth, "?#%") {
		return admincli.Misused("--vault-auth: %q is not a mount such as kubernetes", f.Auth)
	}
	if _, err := vault.CheckAddress(f.Addr); err != nil {
		return admincli.Misused("--vault-addr: %w", err)
	}
	return nil
}

// follower returns what reads secrets from Vault, or nil if there is none.
func (f vaultFlags) follower(log *zap.Logger) (*secretstore.Follower, error) {
	if f.Addr == "" {
		return nil, nil
	}
	at, err := vault.CheckAddress(f.Addr)
	if err != nil {
		return nil, err
	}
	var secure *tls.Config
	if f.CA != "" {
		authorities, err := proc.FollowAuthorities(log, f.CA)
		if err != nil {
			return nil, err
		}
		secure = proc.Trusting(authorities, at.Hostname())
	}
	return vault.New(vault.Options{Address: f.Addr, TLS: secure, Namespace: f.Namespace, TokenFile: f.TokenFile,
		Role: f.Role, JWTFile: f.JWTFile, Mount: f.Auth, Log: log.Named("vault")})
}
