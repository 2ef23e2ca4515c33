// Package allowed defines which environment variables, files and secrets in Vault the configuration may name, and to
// which hosts their values may be sent. Only the flags of the process decide that, and never the configuration.
//
// It applies to everybody, even to the owner of the gateway: an endpoint from etcd is not more trusted than one from
// the admin API.
package allowed

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
)

// A List is what may be named. It is immutable; nil allows nothing.
type List struct {
	vendors   map[string]provider.Provider
	variables map[string][]destination // by name
	files     map[string][]destination // by path, that of a folder with a slash at its end
	secrets   map[string][]destination // in Vault, by path; a prefix has a star at its end
	audit     map[string]bool          // files that the audit log may be written to, by path
}

// New returns the list of the vendors' own variables, each to its vendor's own hosts, and of what the flags allow, in
// the order in which they are given: NAME or PATH, alone for what is sent nowhere, or with =HOST[,HOST...]. A variable
// that a flag names goes where the flag says and nowhere else. The flags of secrets in Vault have a path or, with a
// slash or a star at its end, how the paths begin.
func New(vendors map[string]provider.Provider, variables, files, secrets []string) (*List, error) {
	l := &List{vendors: vendors, variables: map[string][]destination{}, files: map[string][]destination{},
		secrets: map[string][]destination{}}
	for _, flag := range variables {
		name, hosts, err := split(flag)
		if err != nil {
			return nil, fmt.Errorf("--credential-env %s: %w", flag, err)
		}
		l.variables[name] = append(l.variables[name], hosts...)
	}
	for _, flag := range files {
		name, hosts, err := split(flag)
		if err == nil && (!path.IsAbs(name) || !plain(name) || name == "/") {
			err = fmt.Errorf("%q is not the plain absolute path of a file or, with a slash at its end, of a folder", name)
		}
		if err != nil {
			return nil, fmt.Errorf("--credential-file %s: %w", flag, err)
		}
		l.files[name] = append(l.files[name], hosts...)
	}
	for _, flag := range secrets {
		name, hosts, err := split(flag)
		if name, err = secretPath(name, err); err != nil {
			return nil, fmt.Errorf("--credential-vault %s: %w", flag, err)
		}
		l.secrets[name] = append(l.secrets[name], hosts...)
	}
	return l, l.addVendors()
}

// addVendors adds the vendors' own variables that no flag names.
func (l *List) addVendors() error {
	named := maps.Clone(l.variables)
	for _, name := range slices.Sorted(maps.Keys(l.vendors)) {
		v := l.vendors[name]
		if _, ok := named[v.CredentialEnv]; ok || v.CredentialEnv == "" {
			continue
		}
		hosts, err := ofVendor(v)
		if err != nil {
			return fmt.Errorf("the hosts of %s: %w", name, err)
		}
		l.variables[v.CredentialEnv] = append(l.variables[v.CredentialEnv], hosts...)
	}
	return nil
}

// secretPath returns the path of a flag for Vault, or what the paths that it means begin with, and a star.
func secretPath(name string, err error) (string, error) {
	begin, prefix := strings.CutSuffix(name, "*")
	switch {
	case err != nil:
		return "", err
	case begin == "" || path.IsAbs(begin) || !plain(begin) || strings.HasPrefix(begin, "..") ||
		strings.ContainsAny(begin, "*?#% "):
		return "", fmt.Errorf("%q is not a path below /v1/ such as secret/data/openai or, with a star or a slash at its end, how paths begin",
			name)
	case prefix || strings.HasSuffix(begin, "/"):
		return begin + "*", nil
	}
	return begin, nil
}

// WithAuditFiles returns the list with files that the audit log may be written to.
func (l *List) WithAuditFiles(paths []string) (*List, error) {
	with := *l
	with.audit = map[string]bool{}
	for _, name := range paths {
		if !path.IsAbs(name) || path.Clean(name) != name || name == "/" {
			return nil, fmt.Errorf("--audit-file %s: %q is not the plain absolute path of a file", name, name)
		}
		with.audit[name] = true
	}
	return &with, nil
}

func ofVendor(v provider.Provider) ([]destination, error) {
	var hosts []destination
	if v.DefaultEndpoint != "" {
		e, err := provider.ParseEndpoint(v.DefaultEndpoint)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, ofEndpoint(e))
	}
	for _, text := range v.CredentialHosts {
		d, err := parse(text)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, d)
	}
	return hosts, nil
}

// split reads NAME[=HOST[,HOST...]].
func split(flag string) (name string, hosts []destination, err error) {
	name, list, sent := strings.Cut(flag, "=")
	if name == "" {
		return "", nil, fmt.Errorf("has no name")
	}
	if !sent {
		return name, nil, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		d, err := parse(strings.TrimSpace(text))
		if err != nil {
			return "", nil, err
		}
		hosts = append(hosts, d)
	}
	return name, hosts, nil
}

// Check returns what of an object names a variable, a file or a secret that it may not, or would send it where it may
// not go, or nil. The object's credentials that are values are not looked at: who gives one decides where it goes.
func (l *List) Check(o configv1.Object) error {
	var errs configv1.Errors
	refuse := func(field, message string) {
		if message != "" {
			errs = append(errs, configv1.FieldError{Object: configv1.Label(o), Field: field, Message: message})
		}
	}
	switch o := o.(type) {
	case *configv1.Certificate:
		if o.GetChainFile() != "" {
			refuse("chain_file", l.unnamed("file", o.GetChainFile()))
		}
	case *configv1.JobService:
		if file := o.GetTls().GetCaFile(); file != "" {
			refuse("tls.ca_file", l.unnamed("file", file))
		}
	case *configv1.AuditSink:
		if file := o.GetFile().GetPath(); file != "" && (l == nil || !l.audit[file]) {
			refuse("file.path", fmt.Sprintf(
				"%s is not among the files that the audit log may be written to. Start the control plane with --audit-file %s",
				file, file))
		}
	}
	for _, c := range configv1.Credentials(o) {
		if source, name := named(c.Credential); name != "" {
			refuse(c.Field+"."+source, l.credential(o, source, name))
		}
	}
	return errs.Err()
}

// named returns what a credential that is not a value names.
func named(c *configv1.Credential) (source, name string) {
	switch s := c.GetSource().(type) {
	case *configv1.Credential_Env:
		return "env", s.Env
	case *configv1.Credential_File:
		return "file", s.File
	case *configv1.Credential_Vault:
		return "vault", s.Vault.GetPath()
	}
	return "", ""
}

func (l *List) credential(o configv1.Object, source, name string) string {
	if message := l.unnamed(source, name); message != "" {
		return message
	}
	var to destination
	var err error
	switch o := o.(type) {
	case *configv1.Provider:
		var e provider.Endpoint
		e, err = l.vendors[o.GetVendor()].Endpoint(o)
		to = ofEndpoint(e)
	case interface {
		Endpoint() (configv1.Endpoint, error)
	}: // of what is not a provider
		var e configv1.Endpoint
		e, err = o.Endpoint()
		to = ofEndpoint(provider.Endpoint(e))
	default:
		return "" // it goes to Envoy alone
	}
	if err != nil {
		return "where it would be sent is not to be told: " + err.Error()
	}
	hosts, _ := l.hosts(source, name)
	if slices.ContainsFunc(hosts, func(d destination) bool { return d.covers(to) }) {
		return ""
	}
	may := "nowhere"
	if len(hosts) > 0 {
		may = "to " + list(hosts) + " alone"
	}
	return fmt.Sprintf("%s may be sent %s, and not to %s. Start the control plane with --credential-%s %s=%s, or give the credential as value",
		name, may, to, source, name, to)
}

// unnamed returns why a variable, file or secret may not be named at all, or "".
func (l *List) unnamed(source, name string) string {
	if _, ok := l.hosts(source, name); ok {
		return ""
	}
	what := map[string]string{"env": "variables", "file": "files", "vault": "secrets in Vault"}[source]
	return fmt.Sprintf("%s is not among the %s that the configuration may name. Start the control plane with --credential-%s %s=HOST, where it is for HOST, or without =HOST, where it is for a certificate",
		name, what, source, name)
}

func (l *List) hosts(source, name string) ([]destination, bool) {
	if l == nil {
		return nil, false
	}
	if source == "env" {
		hosts, ok := l.variables[name]
		return hosts, ok
	}
	if !plain(name) { // what is above a folder that is a link is elsewhere than it looks
		return nil, false
	}
	all, below := l.files, func(allowed string) bool {
		return strings.HasSuffix(allowed, "/") && strings.HasPrefix(name, allowed)
	}
	if source == "vault" {
		all, below = l.secrets, func(allowed string) bool {
			begin, prefix := strings.CutSuffix(allowed, "*")
			return prefix && strings.HasPrefix(name, begin)
		}
	}
	var hosts []destination
	found := false
	for allowed, to := range all {
		if name == allowed || below(allowed) {
			hosts, found = append(hosts, to...), true
		}
	}
	return hosts, found
}

// plain reports whether a path has nothing in it that leads elsewhere than it looks.
func plain(name string) bool { return path.Clean(name) == strings.TrimSuffix(name, "/") }
