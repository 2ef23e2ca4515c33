package configv1

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxVaultPath  = 512 // bytes
	maxVaultField = 128 // bytes
	maxIdentity   = 256 // bytes
)

func (v *validator) provider(p *Provider) {
	v.label("name", p.GetName())
	vendor, known := v.vendors(p.GetVendor())
	if p.GetVendor() == "" || !known {
		v.fail("vendor", "must be the name of a vendor that this gateway knows%s",
			didYouMean(p.GetVendor(), vendor.Known))
	}
	before := len(v.errs)
	v.place("region", p.GetRegion())
	v.place("project", p.GetProject())
	if a := p.GetApiVersion(); a != "" && (len(a) > maxName || !versionPattern.MatchString(a)) {
		v.fail("api_version", "must be at most %d letters, digits, dots, dashes and _, such as 2024-10-21", maxName)
	}
	encrypted := true
	if p.GetEndpoint() != "" {
		e, err := ParseEndpoint(p.GetEndpoint())
		if err != nil {
			v.fail("endpoint", "%v", err)
		}
		encrypted = e.TLS
	}
	if known && vendor.Endpoint != nil && len(v.errs) == before {
		if err := vendor.Endpoint(p); err != nil {
			v.fail("endpoint", "%v", err)
		}
	}
	if p.GetCredential() != nil {
		v.credential("credential", p.GetCredential())
		// It becomes a header, unless it is exchanged for another credential.
		if !vendor.Exchanges && strings.ContainsFunc(p.GetCredential().GetValue(), unicode.IsControl) {
			v.fail("credential.value", "must be one line without control characters")
		}
	}
	v.headers(p.GetHeaders())
	v.timeouts(p.GetTimeouts())
	if t := p.GetTls(); t != nil {
		v.upstreamTLS(t, encrypted)
	}
	for i, m := range p.GetModels() {
		v.required(element("models", i), m)
	}
	v.distinct("models", p.GetModels())
	for i, name := range p.GetOperations() {
		if known && !slices.Contains(vendor.Operations, name) {
			v.fail(element("operations", i), "must be one of the vendor's: %s%s", strings.Join(vendor.Operations, ", "),
				didYouMean(name, vendor.Operations))
		}
	}
	v.distinct("operations", p.GetOperations())
	v.concurrency(p.GetConcurrency())
}

func (v *validator) credential(field string, c *Credential) {
	switch source := c.GetSource().(type) {
	case nil:
		v.fail(field, "needs one of env, file, vault, secret_manager, workload_identity and value")
	case *Credential_Env:
		if !envPattern.MatchString(source.Env) {
			v.fail(field+".env", "must be the name of an environment variable: letters, digits and _")
		}
	case *Credential_File:
		v.filePath(field+".file", source.File)
	case *Credential_Value:
		if source.Value == "" {
			v.fail(field+".value", "is empty")
		}
	case *Credential_Sealed:
		if source.Sealed == "" {
			v.fail(field+".sealed", "is empty")
		}
	case *Credential_Vault:
		v.vaultSecret(field+".vault", source.Vault)
	case *Credential_SecretManager:
		v.managedSecret(field+".secret_manager", source.SecretManager)
	case *Credential_WorkloadIdentity:
		if as := source.WorkloadIdentity.GetAs(); len(as) > maxIdentity || strings.ContainsFunc(as, notOfIdentity) {
			v.fail(field+".workload_identity.as", "must be the ARN of a role, the e-mail address of a service account "+
				"or a client ID, of at most %d bytes", maxIdentity)
		}
	}
}

// vaultSecret accepts what can be the path of a request, and leads nowhere but where it looks to.
func (v *validator) vaultSecret(field string, s *VaultSecret) {
	if !plainPath(s.GetPath()) {
		v.fail(field+".path", "must be a path below /v1/ such as secret/data/openai, of at most %d bytes: "+
			"without a slash at an end, empty parts, .., spaces and the characters ? # %% * \\", maxVaultPath)
	}
	if f := s.GetField(); f == "" || len(f) > maxVaultField || strings.ContainsFunc(f, unicode.IsControl) {
		v.fail(field+".field", "must be the name of a field of the secret, of at most %d bytes", maxVaultField)
	}
}

// managedSecret accepts the name of a secret as [ManagedSecret.Parts] takes it.
func (v *validator) managedSecret(field string, s *ManagedSecret) {
	if _, err := s.Parts(); err != nil {
		v.fail(field+".name", "%s", err)
	}
	if f := s.GetField(); len(f) > maxVaultField || strings.ContainsFunc(f, unicode.IsControl) {
		v.fail(field+".field", "must be the name of a member of the secret, of at most %d bytes", maxVaultField)
	}
}

func notOfIdentity(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`*=,"\\`, r) }

// plainPath reports whether a path leads nowhere but where it looks to.
func plainPath(p string) bool {
	if p == "" || len(p) > maxVaultPath || strings.HasPrefix(p, "/") || path.Clean(p) != p ||
		strings.HasPrefix(p, "..") || p == "." {
		return false
	}
	return utf8.ValidString(p) && !strings.ContainsFunc(p, func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) || strings.ContainsRune(`?#%*\`, r)
	})
}

func (v *validator) filePath(field, name string) {
	if !path.IsAbs(name) || strings.ContainsFunc(name, unicode.IsControl) {
		v.fail(field, "must be an absolute path")
	}
}

// pemOrFile checks certificates that are given as text or as the name of a file.
func (v *validator) pemOrFile(field, text, file string) {
	switch {
	case file == "":
		v.pemCertificates(field, text)
	case text != "":
		v.fail(field+"_file", "%s is given already; one of them must go", field)
	default:
		v.filePath(field+"_file", file)
	}
}

// refusedHeaders are headers that carry credentials, belong to one connection (RFC 9110, section 7.6.1), or are set by
// the gateway.
func refusedHeaders() []string {
	return []string{
		"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key", "x-amz-security-token",
		"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
		"host", "content-length", "content-type", "content-encoding", "accept-encoding", "expect",
	}
}

func (v *validator) headers(headers map[string]string) {
	refused := refusedHeaders()
	lowered := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		field := "headers." + name
		lower := strings.ToLower(name)
		switch {
		case !isToken(name):
			v.fail("headers", "%q is not the name of a header", name)
		case slices.Contains(refused, lower), strings.HasPrefix(lower, "x-envoy-"):
			v.fail(field, "cannot be set; credentials belong in credential, and the others are set by the gateway")
		case lowered[lower] != "":
			v.fail(field, "is the same as headers.%s", lowered[lower])
		case strings.ContainsFunc(headers[name], unicode.IsControl) || strings.TrimSpace(headers[name]) != headers[name]:
			v.fail(field, "must be one line without control characters and without space around it")
		}
		lowered[lower] = name
	}
}

// isToken reports whether s is a token (RFC 9110, section 5.6.2), such as a header name.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		alphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

func (v *validator) timeouts(t *Timeouts) {
	v.duration("timeouts.connect", t.GetConnect())
	v.duration("timeouts.first_byte", t.GetFirstByte())
	v.duration("timeouts.idle", t.GetIdle())
}

func (v *validator) upstreamTLS(t *UpstreamTLS, encrypted bool) {
	if !encrypted {
		v.fail("tls", "the endpoint does not use TLS; it must begin with https://")
	}
	if t.GetCa() != "" {
		v.pemCertificates("tls.ca", t.GetCa())
	}
	name := t.GetServerName()
	if u, err := url.Parse("https://" + name); name != "" && (err != nil || u.Host != name || u.Port() != "") {
		v.fail("tls.server_name", "must be the name of a host, without a port")
	}
}

// pemCertificates checks that text has only certificates.
func (v *validator) pemCertificates(field, text string) {
	v.pemBlocks(field, text, "certificate", "CERTIFICATE", func(der []byte) error {
		_, err := x509.ParseCertificate(der)
		return err
	})
}

// pemBlocks checks that text has only blocks of a type, at least one, which can be read.
func (v *validator) pemBlocks(field, text, what, blockType string, read func(der []byte) error) {
	rest := []byte(text)
	for n := 0; ; n++ {
		block, after := pem.Decode(rest)
		if block == nil {
			if n == 0 || strings.TrimSpace(string(rest)) != "" {
				v.fail(field, "must be PEM %ss; after %d of them there is something else", what, n)
			}
			return
		}
		if block.Type != blockType {
			v.fail(field, "must hold only PEM %ss; block %d is a %q", what, n+1, block.Type)
			return
		}
		if err := read(block.Bytes); err != nil {
			v.fail(field, "%s %d cannot be read: %v", what, n+1, err)
			return
		}
		rest = after
	}
}

func (v *validator) model(m *Model) {
	v.modelName("name", m.GetName())
	if len(m.GetTargets()) == 0 {
		v.fail("targets", "needs at least one target")
	}
	for i, t := range m.GetTargets() {
		at := element("targets", i)
		v.label(at+".provider", t.GetProvider())
		v.required(at+".model", t.GetModel())
		v.between(at+".weight", t.GetWeight(), 1, 1_000_000)
		v.between(at+".priority", t.GetPriority(), 0, 127) // Envoy's highest is 128
		first := slices.IndexFunc(m.GetTargets(), func(o *Target) bool {
			return o.GetProvider() == t.GetProvider() && o.GetModel() == t.GetModel()
		})
		if first < i {
			v.fail(at, "is the same as %s", element("targets", first))
		}
	}
	v.between("retry.max_attempts", m.GetRetry().GetMaxAttempts(), 1, maxAttempts)
	for i, code := range m.GetRetry().GetStatusCodes() {
		if code < 400 || code > 599 {
			v.fail(element("retry.status_codes", i), "must be between 400 and 599")
		}
		if slices.Contains(clientErrorStatuses, code) {
			v.fail(element("retry.status_codes", i),
				"%d is of the client's own making, and such a 4xx never falls back: another provider would be asked the same",
				code)
		}
	}
	v.timeouts(m.GetTimeouts())
	v.text("owned_by", m.GetOwnedBy())
	v.time("created_at", m.GetCreatedAt())
	v.ownership(m)
}

// clientErrorStatuses are the statuses with which a provider refuses the client's request. 401 and 402 are about the
// gateway's own account at the provider.
var clientErrorStatuses = []uint32{400, 403, 404, 405, 409, 413, 415, 422}

func (v *validator) gateway(g *Gateway) {
	v.label("name", g.GetName())
	if g.GetAddress() != "" {
		if _, err := netip.ParseAddr(g.GetAddress()); err != nil {
			v.fail("address", "must be an IP address such as 0.0.0.0 or ::1")
		}
	}
	v.between("port", g.GetPort(), 1, 65535)
	v.between("plain_http_port", g.GetPlainHttpPort(), 1, 65535)
	if g.GetPort() != 0 && g.GetPort() == g.GetPlainHttpPort() {
		v.fail("plain_http_port", "must differ from port")
	}
	v.optionalLabel("certificate", g.GetCertificate())
	v.between("trusted_hops", g.GetTrustedHops(), 0, 32)
	if g.GetMaxRequestBytes() > 1<<32-1 {
		v.fail("max_request_bytes", "must be less than 4 GiB")
	}
	v.addressLimit(g.GetAddressLimit())
	if g.GetCors() != nil {
		v.cors(g.GetCors())
	}
}

func (v *validator) cors(c *Cors) {
	if len(c.GetOrigins()) == 0 {
		v.fail("cors.origins", "must not be empty: without origins there is no need of cors")
	}
	for _, o := range c.GetOrigins() {
		plain := strings.ReplaceAll(strings.ToLower(o), "*", "any")
		u, err := url.Parse(plain)
		switch {
		case o == "*":
		case err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != plain:
			v.fail("cors.origins",
				"must be origins such as https://app.example.com, https://*.example.com or *, without a path; %q is none", o)
		case o != strings.ToLower(o), u.Scheme == "https" && u.Port() == "443", u.Scheme == "http" && u.Port() == "80":
			v.fail("cors.origins",
				"must be as browsers write them, in lower case and without the scheme's own port, or they never match; %q is not",
				o)
		}
	}
	for field, names := range map[string][]string{"cors.headers": c.GetHeaders(),
		"cors.exposed_headers": c.GetExposedHeaders()} {
		for _, name := range names {
			if name != "*" && !isToken(name) {
				v.fail(field, "%q is no name of a header", name)
			}
		}
	}
	v.duration("cors.max_age", c.GetMaxAge())
}

func (v *validator) certificate(c *Certificate) {
	v.label("name", c.GetName())
	before := len(v.errs)
	v.pemOrFile("chain", c.GetChain(), c.GetChainFile())
	if c.GetPrivateKey() == nil {
		v.fail("private_key", "missing")
		return
	}
	v.credential("private_key", c.GetPrivateKey())
	key := c.GetPrivateKey().GetValue()
	if key == "" || c.GetChain() == "" || len(v.errs) > before {
		return
	}
	if _, err := tls.X509KeyPair([]byte(c.GetChain()), []byte(key)); err != nil {
		v.fail("private_key.value", "must be the PEM of the key of the first certificate in chain")
	}
}
