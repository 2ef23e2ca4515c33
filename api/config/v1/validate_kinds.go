package configv1

import (
	"crypto/tls"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelgate/modelgate/api/config/options"
)

const (
	maxVaultPath  = 512 // bytes
	maxVaultField = 128 // bytes
	maxIdentity   = 256 // bytes
)

var (
	versionPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	envPattern     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (x *Provider) check(v *validator) {
	vendor, known := v.vendors(x.GetVendor())
	if x.GetVendor() == "" || !known {
		v.fail("vendor", "must be the name of a vendor that this gateway knows%s",
			didYouMean(x.GetVendor(), vendor.Known))
	}
	if a := x.GetApiVersion(); a != "" && (len(a) > maxName || !versionPattern.MatchString(a)) {
		v.fail("api_version", "must be at most %d letters, digits, dots, dashes and _, such as 2024-10-21", maxName)
	}
	encrypted := true
	if x.GetEndpoint() != "" {
		e, err := ParseEndpoint(x.GetEndpoint())
		if err != nil {
			v.fail("endpoint", "%v", err)
		}
		encrypted = e.TLS
	}
	if known && vendor.Endpoint != nil && !v.failed("region", "project", "api_version", "endpoint") {
		if err := vendor.Endpoint(x); err != nil {
			v.fail("endpoint", "%v", err)
		}
	}
	// It becomes a header, unless it is exchanged for another credential.
	if !vendor.Exchanges && strings.ContainsFunc(x.GetCredential().GetValue(), unicode.IsControl) {
		v.fail("credential.value", "must be one line without control characters")
	}
	v.headers(x.GetHeaders())
	if x.GetTls() != nil && !encrypted {
		v.fail("tls", "the endpoint does not use TLS; it must begin with https://")
	}
	for i, name := range x.GetOperations() {
		if known && !slices.Contains(vendor.Operations, name) {
			v.fail(element("operations", i), "must be one of the vendor's: %s%s", strings.Join(vendor.Operations, ", "),
				didYouMean(name, vendor.Operations))
		}
	}
}

func (c *Credential) check(v *validator) {
	switch source := c.GetSource().(type) {
	case nil:
		v.fail("", "needs one of env, file, vault, secret_manager, workload_identity and value")
	case *Credential_Env:
		if !envPattern.MatchString(source.Env) {
			v.fail("env", "must be the name of an environment variable: letters, digits and _")
		}
	case *Credential_File:
		v.filePath("file", source.File)
	case *Credential_Value:
		if source.Value == "" {
			v.fail("value", "is empty")
		}
	case *Credential_Sealed:
		if source.Sealed == "" {
			v.fail("sealed", "is empty")
		}
	}
}

func (w *WorkloadIdentity) check(v *validator) {
	if as := w.GetAs(); len(as) > maxIdentity || strings.ContainsFunc(as, notOfIdentity) {
		v.fail("as", "must be the ARN of a role, the e-mail address of a service account "+
			"or a client ID, of at most %d bytes", maxIdentity)
	}
}

// check accepts what can be the path of a request, and leads nowhere but where it looks to.
func (s *VaultSecret) check(v *validator) {
	if !plainPath(s.GetPath()) {
		v.fail("path", "must be a path below /v1/ such as secret/data/openai, of at most %d bytes: "+
			"without a slash at an end, empty parts, .., spaces and the characters ? # %% * \\", maxVaultPath)
	}
	if f := s.GetField(); f == "" || len(f) > maxVaultField || strings.ContainsFunc(f, unicode.IsControl) {
		v.fail("field", "must be the name of a field of the secret, of at most %d bytes", maxVaultField)
	}
}

// check accepts the name of a secret as [ManagedSecret.Parts] takes it.
func (s *ManagedSecret) check(v *validator) {
	if _, err := s.Parts(); err != nil {
		v.fail("name", "%s", err)
	}
	if f := s.GetField(); len(f) > maxVaultField || strings.ContainsFunc(f, unicode.IsControl) {
		v.fail("field", "must be the name of a member of the secret, of at most %d bytes", maxVaultField)
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
		v.form(field, options.Form_PEM, text)
	case text != "":
		v.fail(field+"_file", "%s is given already; one of them must go", v.at+field)
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

func (t *UpstreamTLS) check(v *validator) {
	name := t.GetServerName()
	if u, err := url.Parse("https://" + name); name != "" && (err != nil || u.Host != name || u.Port() != "") {
		v.fail("server_name", "must be the name of a host, without a port")
	}
}

func (x *Model) check(v *validator) {
	for i, t := range x.GetTargets() {
		first := slices.IndexFunc(x.GetTargets(), func(o *Target) bool {
			return o.GetProvider() == t.GetProvider() && o.GetModel() == t.GetModel()
		})
		if first < i {
			v.fail(element("targets", i), "is the same as %s", element("targets", first))
		}
	}
}

func (r *Retry) check(v *validator) {
	for i, code := range r.GetStatusCodes() {
		if code < 400 || code > 599 {
			v.fail(element("status_codes", i), "must be between 400 and 599")
		}
		if slices.Contains(clientErrorStatuses, code) {
			v.fail(element("status_codes", i),
				"%d is of the client's own making, and such a 4xx never falls back: another provider would be asked the same",
				code)
		}
	}
}

// clientErrorStatuses are the statuses by which a provider refuses the client's request. 401 and 402 are about the
// gateway's own account at the provider.
var clientErrorStatuses = []uint32{400, 403, 404, 405, 409, 413, 415, 422}

func (x *Gateway) check(v *validator) {
	if x.GetAddress() != "" {
		if _, err := netip.ParseAddr(x.GetAddress()); err != nil {
			v.fail("address", "must be an IP address such as 0.0.0.0 or ::1")
		}
	}
	if x.GetPort() != 0 && x.GetPort() == x.GetPlainHttpPort() {
		v.fail("plain_http_port", "must differ from port")
	}
	if x.GetMaxRequestBytes() > 1<<32-1 {
		v.fail("max_request_bytes", "must be less than 4 GiB")
	}
	for i, name := range x.GetHostnames() {
		if plain := strings.TrimPrefix(name, "*."); !isHost(plain) || name != strings.ToLower(name) {
			v.fail("hostnames", "must be DNS names in lower case, such as api.example.com or *.example.com; %q is none", name)
		} else if slices.Contains(x.GetHostnames()[:i], name) {
			v.fail("hostnames", "has %q twice", name)
		}
	}
}

func (x *Cors) check(v *validator) {
	for _, o := range x.GetOrigins() {
		plain := strings.ReplaceAll(strings.ToLower(o), "*", "any")
		u, err := url.Parse(plain)
		switch {
		case o == "*":
		case err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != plain:
			v.fail("origins",
				"must be origins such as https://app.example.com, https://*.example.com or *, without a path; %q is none", o)
		case o != strings.ToLower(o), u.Scheme == "https" && u.Port() == "443", u.Scheme == "http" && u.Port() == "80":
			v.fail("origins",
				"must be as browsers write them, in lower case and without the scheme's own port, or they never match; %q is not",
				o)
		}
	}
	for field, names := range map[string][]string{"headers": x.GetHeaders(),
		"exposed_headers": x.GetExposedHeaders()} {
		for _, name := range names {
			if name != "*" && !isToken(name) {
				v.fail(field, "%q is no name of a header", name)
			}
		}
	}
}

func (c *Certificate) check(v *validator) {
	v.pemOrFile("chain", c.GetChain(), c.GetChainFile())
	key := c.GetPrivateKey().GetValue()
	if key == "" || c.GetChain() == "" || v.failed("chain", "chain_file", "private_key") {
		return
	}
	if _, err := tls.X509KeyPair([]byte(c.GetChain()), []byte(key)); err != nil {
		v.fail("private_key.value", "must be the PEM of the key of the first certificate in chain")
	}
}

// pathPattern matches paths that all servers interpret in the same way: without escapes and without empty segments.
var pathPattern = regexp.MustCompile(`^(/[A-Za-z0-9._~@:+-]+)+/?$`)

// ownPaths are the gateway's own paths, which include the paths below them.
var ownPaths = []string{
	"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models", "/v1/moderations", ownResponses,
	"/v1/messages", "/v1/rerank",
	"/v1/images/generations", "/v1/images/edits", "/v1/images/variations",
	"/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations",
	"/v1/files", "/v1/uploads", "/v1/batches", "/v1/fine_tuning",
}

// ownResponses is the only own path that may have a route below it, because the provider stores the responses.
const ownResponses = "/v1/responses"

// OwnPath returns an own path of the gateway that a route with the prefix would take, or "".
func OwnPath(prefix string) string {
	above := strings.TrimSuffix(prefix, "/") + "/"
	for _, own := range ownPaths {
		below := strings.HasPrefix(above, own+"/") && (own != ownResponses || prefix == own)
		if strings.HasPrefix(own, above) || below {
			return own
		}
	}
	return ""
}

var routeHeader = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,99}$`)

func (x *Route) check(v *validator) {
	if v.path("path_prefix", x.GetPathPrefix()) {
		if own := OwnPath(x.GetPathPrefix()); own != "" {
			v.fail("path_prefix", "would take %s, which is the gateway's own", own)
		}
	}
	if to := x.GetRewritePrefix(); to != "" && to != "/" {
		v.path("rewrite_prefix", to)
	}
	for _, stored := range []string{ownResponses, "/v1/conversations"} { // which is the gateway's own, if it stores them
		if len(x.GetGateways()) > 0 && strings.HasPrefix(x.GetPathPrefix()+"/", stored+"/") {
			v.fail("gateways", "cannot be for %s: other gateways would not answer for their own path", stored)
		}
	}
	for i, name := range x.GetRequestHeaders() {
		if !routeHeader.MatchString(name) {
			v.fail(element("request_headers", i), "must be the name of a header in lower case, such as x-http-method-override")
		}
	}
}

func (v *validator) path(field, p string) bool {
	ok := len(p) <= maxText && pathPattern.MatchString(p) && path.Clean(p) == strings.TrimSuffix(p, "/")
	if !ok {
		v.fail(field, "must be the beginning of a path such as /v1/ocr, of at most %d letters, digits and ._~@:+-",
			maxText)
	}
	return ok
}
