package configv1

import (
	"errors"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"
)

// Clouds, as the names of managed secrets begin with them.
const (
	AWS    = "aws"
	Google = "google"
	Azure  = "azure"
)

// A SecretName is the name of a managed secret in its parts.
type SecretName struct {
	Cloud   string
	Place   string // AWS: region; Google: project; Azure: vault
	Name    string
	Version string // empty: the newest
}

var (
	errSecretName = errors.New(
		"must be aws/REGION/NAME, google/PROJECT/NAME or azure/VAULT/NAME, the latter two with /VERSION or without")
	// Each part goes into a URL or a host.
	secretPlaces = map[string]*regexp.Regexp{
		AWS:    regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]+$`),
		Google: regexp.MustCompile(`^[a-z0-9][a-z0-9.:-]{1,63}$`),
		Azure:  regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{1,22}[A-Za-z0-9]$`),
	}
	secretNames = map[string]*regexp.Regexp{
		AWS:    regexp.MustCompile(`^[A-Za-z0-9/_+=.@!:-]{1,512}$`),
		Google: regexp.MustCompile(`^[A-Za-z0-9_-]{1,255}$`),
		Azure:  regexp.MustCompile(`^[A-Za-z0-9-]{1,127}$`),
	}
	secretVersion = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// Parts returns the parts of the secret's name.
func (s *ManagedSecret) Parts() (SecretName, error) { return ParseSecretName(s.GetName()) }

// ParseSecretName returns the parts of the name of a managed secret.
func ParseSecretName(name string) (SecretName, error) {
	cloud, rest, _ := strings.Cut(name, "/")
	n := SecretName{Cloud: cloud}
	n.Place, n.Name, _ = strings.Cut(rest, "/")
	if cloud != AWS { // whose names may have slashes
		n.Name, n.Version, _ = strings.Cut(n.Name, "/")
	}
	place, ok := secretPlaces[cloud]
	if !ok || !plainPath(name) || !place.MatchString(n.Place) || !secretNames[cloud].MatchString(n.Name) ||
		n.Version != "" && !secretVersion.MatchString(n.Version) {
		return SecretName{}, errSecretName
	}
	return n, nil
}

// Named returns the reference of a credential to something outside the configuration: the source, such as env, and
// the name there. Both are empty for a value. A workload identity may have an empty name.
func (c *Credential) Named() (source, name string) {
	switch s := c.GetSource().(type) {
	case *Credential_Env:
		return "env", s.Env
	case *Credential_File:
		return "file", s.File
	case *Credential_Vault:
		return "vault", s.Vault.GetPath()
	case *Credential_SecretManager:
		return "secret_manager", s.SecretManager.GetName()
	case *Credential_WorkloadIdentity:
		return "workload_identity", s.WorkloadIdentity.GetAs()
	}
	return "", ""
}

// Redact returns a copy of an object for display: secrets are [Redacted], and the hashes of keys and tokens are
// removed. A rotated key still has the expiry of the replaced one.
func Redact(o Object) Object {
	shown := proto.Clone(o).(Object)
	for _, c := range Credentials(shown) {
		switch c.Credential.GetSource().(type) {
		case *Credential_Sealed:
			c.Credential.Source = &Credential_Sealed{Sealed: Redacted}
		case *Credential_Value:
			c.Credential.Source = &Credential_Value{Value: Redacted}
		}
	}
	switch o := shown.(type) {
	case *Key:
		o.Hash = nil
		if o.GetRetired() != nil {
			o.Retired.Hash = nil
		}
	case *AdminToken:
		o.Hash = nil
	case *Account:
		o.Password, o.PasswordHash = "", ""
	}
	return shown
}
