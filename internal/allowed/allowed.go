// Package allowed defines which environment variables, files, secrets elsewhere and identities of the process the
// configuration may name, and to which hosts their values may be sent. Only the flags of the process decide that, and
// never the configuration.
//
// It applies to everybody, even to the owner of the gateway: an endpoint from etcd is not more trusted than one from
// the admin API.
package allowed

import (
	"errors"
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
	// vault and managers are secrets in Vault and in secret managers, by path; a prefix has a star at its end.
	vault, managers map[string][]destination
	identities      map[string][]destination // by cloud, with a colon and who to act as if that is somebody else
	audit           map[string]bool          // files that the audit log may be written to, by path
}

// Flags are the process's flags. Each is NAME or PATH: alone if it is sent nowhere, or with =HOST[,HOST...].
type Flags struct {
	// Variables go where a flag says and nowhere else.
	Variables []string
	Files     []string
	// Vault and Managers have the path of a secret or, with a slash or a star at its end, how the paths begin.
	Vault, Managers []string
	// Identities have a cloud or, with a colon, a cloud and who to act as. Alone they are for the hosts of the cloud's
	// vendors.
	Identities []string
}

// New returns a list with the vendors' own variables, each for its vendor's own hosts, and the entries of the flags.
func New(vendors map[string]provider.Provider, f Flags) (*List, error) {
	l := &List{vendors: vendors, variables: map[string][]destination{}, files: map[string][]destination{},
		vault: map[string][]destination{}, managers: map[string][]destination{}, identities: map[string][]destination{}}
	for _, flag := range f.Variables {
		name, hosts, err := split(flag)
		if err != nil {
			return nil, fmt.Errorf("--credential-env %s: %w", flag, err)
		}
		l.variables[name] = append(l.variables[name], hosts...)
	}
	for _, flag := range f.Files {
		name, hosts, err := split(flag)
		if err == nil && (!path.IsAbs(name) || !plain(name) || name == "/") {
			err = fmt.Errorf("%q is not the plain absolute path of a file or, with a slash at its end, of a folder", name)
		}
		if err != nil {
			return nil, fmt.Errorf("--credential-file %s: %w", flag, err)
		}
		l.files[name] = append(l.files[name], hosts...)
	}
	err := errors.Join(addSecrets(l.vault, "--credential-vault", f.Vault),
		addSecrets(l.managers, "--credential-secret-manager", f.Managers), l.addIdentities(f.Identities), l.addVendors())
	return l, err
}

// addSecrets adds the secrets of a flag, by their paths.
func addSecrets(to map[string][]destination, name string, flags []string) error {
	for _, flag := range flags {
		path, hosts, err := split(flag)
		if path, err = secretPath(path, err); err != nil {
			return fmt.Errorf("%s %s: %w", name, flag, err)
		}
		to[path] = append(to[path], hosts...)
	}
	return nil
}

// addIdentities adds the process's identities.
func (l *List) addIdentities(flags []string) error {
	for _, flag := range flags {
		name, hosts, err := split(flag)
		cloud, _, _ := strings.Cut(name, ":")
		known := false
		for _, v := range l.vendors {
			if v.Cloud != cloud || cloud == "" || err != nil {
				continue
			}
			known = true
			if !strings.Contains(flag, "=") {
				var own []destination
				own, err = ofVendor(v)
				hosts = append(hosts, own...)
			}
		}
		if err == nil && !known {
			err = fmt.Errorf("%q is not aws, google or azure", cloud)
		}
		if err != nil {
			return fmt.Errorf("--credential-identity %s: %w", flag, err)
		}
		l.identities[name] = append(l.identities[name], hosts...)
	}
	return nil
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

// secretPath returns the path of a flag for secrets, or what the paths that it means begin with, and a star.
func secretPath(name string, err error) (string, error) {
	begin, prefix := strings.CutSuffix(name, "*")
	switch {
	case err != nil:
		return "", err
	case begin == "" || path.IsAbs(begin) || !plain(begin) || strings.HasPrefix(begin, "..") ||
		strings.ContainsAny(begin, "*?#% "):
		return "", fmt.Errorf("%q is not a path such as secret/data/openai or aws/eu-central-1/openai, or, with a star or a slash at its end, how paths begin",
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
		switch source, name := c.Credential.Named(); source {
		case "":
		case identity:
			refuse(c.Field+"."+source, l.identity(o, name))
		default:
			refuse(c.Field+"."+source, l.credential(o, source, name))
		}
	}
	return errs.Err()
}

// identity is the source of a credential that is an identity of the process.
const identity = "workload_identity"

func (l *List) identity(o configv1.Object, as string) string {
	p, _ := o.(*configv1.Provider)
	name := ""
	if l != nil {
		name = l.vendors[p.GetVendor()].Cloud
	}
	if name == "" {
		return "is for providers of the vendors bedrock, vertex and azure alone"
	}
	if as != "" {
		name += ":" + as
	}
	return l.credential(o, identity, name)
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
	}: // not a provider's credential
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
	return fmt.Sprintf("%s may be sent %s, and not to %s. Start the control plane with %s %s=%s, or give the credential as value",
		name, may, to, flagOf(source), name, to)
}

// unnamed returns why a variable, file or secret may not be named at all, or "".
func (l *List) unnamed(source, name string) string {
	if _, ok := l.hosts(source, name); ok {
		return ""
	}
	what := map[string]string{"env": "variables", "file": "files", "vault": "secrets in Vault",
		manager: "secrets in secret managers", identity: "identities"}[source]
	alone := "where it is for a certificate"
	if source == identity {
		alone = "where it is for the hosts of the vendor"
	}
	return fmt.Sprintf("%s is not among the %s that the configuration may name. Start the control plane with %s %s=HOST, where it is for HOST, or without =HOST, %s",
		name, what, flagOf(source), name, alone)
}

// manager is the source of a credential that is in a secret manager.
const manager = "secret_manager"

// flagOf returns the flag that allows what credentials of a source name.
func flagOf(source string) string {
	switch source {
	case identity:
		source = "identity"
	case manager:
		source = "secret-manager"
	}
	return "--credential-" + source
}

func (l *List) hosts(source, name string) ([]destination, bool) {
	if l == nil {
		return nil, false
	}
	switch source {
	case "env":
		hosts, ok := l.variables[name]
		return hosts, ok
	case identity:
		hosts, ok := l.identities[name]
		return hosts, ok
	}
	if !plain(name) { // what is above a folder that is a link is elsewhere than it looks
		return nil, false
	}
	all, below := l.files, func(allowed string) bool {
		return strings.HasSuffix(allowed, "/") && strings.HasPrefix(name, allowed)
	}
	if source != "file" {
		if all = l.vault; source == manager {
			all = l.managers
		}
		below = func(allowed string) bool {
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
