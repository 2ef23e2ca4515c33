package configv1_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// knownVendor knows openai, and cloud, which is in regions and exchanges its credentials.
func knownVendor(name string) (configv1.Vendor, bool) {
	v := configv1.Vendor{Exchanges: name == "cloud", Operations: []string{"chat/completions", "responses"},
		Endpoint: func(p *configv1.Provider) error {
			if name == "cloud" && p.GetRegion() == "" {
				return errors.New("needs a region")
			}
			return nil
		}}
	return v, name == "openai" || name == "cloud"
}

// pair makes a certificate and its key, as PEM.
func pair(t *testing.T) (chain, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

func value(s string) *configv1.Credential {
	return &configv1.Credential{Source: &configv1.Credential_Value{Value: s}}
}

func sealed(s string) *configv1.Credential {
	return &configv1.Credential{Source: &configv1.Credential_Sealed{Sealed: s}}
}

func TestValidateProvider(t *testing.T) {
	chain, _ := pair(t)
	for name, tc := range map[string]struct {
		change func(*configv1.Provider)
		field  string // "" where it is valid
	}{
		"minimal": {func(p *configv1.Provider) {}, ""},
		"http":    {func(p *configv1.Provider) { p.Endpoint = "http://127.0.0.1:8080/v1" }, ""},
		"unix":    {func(p *configv1.Provider) { p.Endpoint = "unix:///run/a.sock" }, ""},
		"own authority": {func(p *configv1.Provider) {
			p.Tls = &configv1.UpstreamTLS{Ca: chain,
				ServerName: "a.example"}
		}, ""},
		"no name":           {func(p *configv1.Provider) { p.Name = "" }, "name"},
		"name with a slash": {func(p *configv1.Provider) { p.Name = "a/b" }, "name"},
		"upper case":        {func(p *configv1.Provider) { p.Name = "A" }, "name"},
		"name of 64":        {func(p *configv1.Provider) { p.Name = strings.Repeat("a", 64) }, "name"},
		"dash at the end":   {func(p *configv1.Provider) { p.Name = "a-" }, "name"},
		"no vendor":         {func(p *configv1.Provider) { p.Vendor = "" }, "vendor"},
		"operations":        {func(p *configv1.Provider) { p.Operations = []string{"responses"} }, ""},
		"unknown operation": {func(p *configv1.Provider) { p.Operations = []string{"/responses"} }, "operations[0]"},
		"twice": {func(p *configv1.Provider) { p.Operations = []string{"responses", "responses"} },
			"operations[1]"},
		"unknown vendor": {func(p *configv1.Provider) { p.Vendor = "acme" }, "vendor"},
		"no scheme":      {func(p *configv1.Provider) { p.Endpoint = "example.com" }, "endpoint"},
		"no host":        {func(p *configv1.Provider) { p.Endpoint = "https:///v1" }, "endpoint"},
		"with user":      {func(p *configv1.Provider) { p.Endpoint = "https://user:pw@example.com" }, "endpoint"},
		"with query":     {func(p *configv1.Provider) { p.Endpoint = "https://example.com?key=1" }, "endpoint"},
		"escaped query": {func(p *configv1.Provider) { p.Endpoint = "http://169.254.169.254/latest/token%3Fx=" },
			"endpoint"},
		"escaped fragment": {func(p *configv1.Provider) { p.Endpoint = "https://example.com/v1%23" }, "endpoint"},
		"escaped line": {func(p *configv1.Provider) { p.Endpoint = "https://example.com/v1%0D%0Ax-a:%20b" },
			"endpoint"},
		"port 0":              {func(p *configv1.Provider) { p.Endpoint = "https://example.com:0" }, "endpoint"},
		"port too large":      {func(p *configv1.Provider) { p.Endpoint = "https://example.com:65536" }, "endpoint"},
		"socket without path": {func(p *configv1.Provider) { p.Endpoint = "unix://" }, "endpoint"},
		"no source":           {func(p *configv1.Provider) { p.Credential = &configv1.Credential{} }, "credential"},
		"empty value":         {func(p *configv1.Provider) { p.Credential = value("") }, "credential.value"},
		"value of two lines":  {func(p *configv1.Provider) { p.Credential = value("a\r\nX: y") }, "credential.value"},
		"bad variable": {func(p *configv1.Provider) {
			p.Credential = &configv1.Credential{Source: &configv1.Credential_Env{Env: "A=B"}}
		}, "credential.env"},
		"relative file": {func(p *configv1.Provider) {
			p.Credential = &configv1.Credential{Source: &configv1.Credential_File{File: "key"}}
		}, "credential.file"},
		"credential header": {func(p *configv1.Provider) { p.Headers = map[string]string{"Authorization": "x"} },
			"headers.Authorization"},
		"hop-by-hop header": {func(p *configv1.Provider) { p.Headers = map[string]string{"connection": "x"} },
			"headers.connection"},
		"pseudo header": {func(p *configv1.Provider) { p.Headers = map[string]string{":path": "/x"} }, "headers"},
		"envoy's header": {func(p *configv1.Provider) { p.Headers = map[string]string{"x-envoy-retry-on": "5xx"} },
			"headers.x-envoy-retry-on"},
		"header of two lines": {func(p *configv1.Provider) { p.Headers = map[string]string{"x-a": "b\nc"} }, "headers.x-a"},
		"header twice": {func(p *configv1.Provider) { p.Headers = map[string]string{"x-a": "b", "X-A": "c"} },
			"headers.x-a"},
		"no time to connect": {func(p *configv1.Provider) { p.Timeouts = &configv1.Timeouts{Connect: durationpb.New(0)} },
			"timeouts.connect"},
		"negative time": {func(p *configv1.Provider) { p.Timeouts = &configv1.Timeouts{Idle: durationpb.New(-1)} },
			"timeouts.idle"},
		"endless": {func(p *configv1.Provider) {
			p.Timeouts = &configv1.Timeouts{FirstByte: &durationpb.Duration{Seconds: 1 << 40}}
		}, "timeouts.first_byte"},
		"tls without tls": {func(p *configv1.Provider) {
			p.Endpoint, p.Tls = "http://a",
				&configv1.UpstreamTLS{}
		}, "tls"},
		"bad authority": {func(p *configv1.Provider) { p.Tls = &configv1.UpstreamTLS{Ca: "x"} }, "tls.ca"},
		"server name and port": {func(p *configv1.Provider) { p.Tls = &configv1.UpstreamTLS{ServerName: "a:443"} },
			"tls.server_name"},
		"empty model":                   {func(p *configv1.Provider) { p.Models = []string{"a", ""} }, "models[1]"},
		"no region where one is needed": {func(p *configv1.Provider) { p.Vendor = "cloud" }, "endpoint"},
		"a region": {func(p *configv1.Provider) {
			p.Vendor, p.Region, p.Project = "cloud", "eu-west-1",
				"p.example-1"
		}, ""},
		"a region that is a host": {func(p *configv1.Provider) { p.Vendor, p.Region = "cloud", "evil.test/" },
			"region"},
		"a region that is a port":      {func(p *configv1.Provider) { p.Region = "a:1" }, "region"},
		"a region that is an account":  {func(p *configv1.Provider) { p.Region = "a@b" }, "region"},
		"a region that ends in a dot":  {func(p *configv1.Provider) { p.Region = "a." }, "region"},
		"a region that is long":        {func(p *configv1.Provider) { p.Region = strings.Repeat("a", 64) }, "region"},
		"a project that climbs":        {func(p *configv1.Provider) { p.Project = "a/../b" }, "project"},
		"a project with dots in a row": {func(p *configv1.Provider) { p.Project = "a..b" }, "project"},
		"a project with a query":       {func(p *configv1.Provider) { p.Project = "a?b" }, "project"},
		"a version":                    {func(p *configv1.Provider) { p.ApiVersion = "2024-10-01-preview" }, ""},
		"a version with more":          {func(p *configv1.Provider) { p.ApiVersion = "1&key=2" }, "api_version"},
		"a credential that is exchanged": {func(p *configv1.Provider) {
			p.Vendor, p.Region, p.Credential = "cloud", "r",
				value("{\n}")
		}, ""},
		"a full provider": {func(p *configv1.Provider) {
			p.Concurrency = &configv1.Concurrency{MaxRequests: 1, MaxPending: 1, MaxWait: durationpb.New(1)}
		}, ""},
		"a queue for nothing": {func(p *configv1.Provider) { p.Concurrency = &configv1.Concurrency{MaxPending: 1} },
			"concurrency.max_pending"},
		"a wait for nothing": {func(p *configv1.Provider) {
			p.Concurrency = &configv1.Concurrency{MaxRequests: 1, MaxWait: durationpb.New(1)}
		}, "concurrency.max_wait"},
		"no wait at all": {func(p *configv1.Provider) {
			p.Concurrency = &configv1.Concurrency{MaxRequests: 1, MaxPending: 1, MaxWait: durationpb.New(0)}
		}, "concurrency.max_wait"},
		"model twice": {func(p *configv1.Provider) { p.Models = []string{"a", "a"} }, "models[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &configv1.Provider{Name: "a", Vendor: "openai"}
			tc.change(p)
			requireFields(t, configv1.Validate(p, knownVendor), tc.field)
		})
	}
}

// requireFields demands an error of exactly this field, or none where it is "".
func requireFields(t *testing.T, errs configv1.Errors, field string) {
	t.Helper()
	if field == "" {
		require.NoError(t, errs.Err())
		return
	}
	require.Len(t, errs, 1, "%v", errs)
	require.Equal(t, field, errs[0].Field, errs.Error())
	require.NotEmpty(t, errs[0].Object)
}

func TestValidateModel(t *testing.T) {
	target := &configv1.Target{Provider: "a", Model: "m"}
	for name, tc := range map[string]struct {
		model *configv1.Model
		field string
	}{
		"minimal":          {&configv1.Model{Name: "a", Targets: []*configv1.Target{target}}, ""},
		"with slashes":     {&configv1.Model{Name: "Org/ft:gpt-4o:x::1/v2", Targets: []*configv1.Target{target}}, ""},
		"no name":          {&configv1.Model{Targets: []*configv1.Target{target}}, "name"},
		"dots":             {&configv1.Model{Name: "a/../b", Targets: []*configv1.Target{target}}, "name"},
		"double slash":     {&configv1.Model{Name: "a//b", Targets: []*configv1.Target{target}}, "name"},
		"slash at the end": {&configv1.Model{Name: "a/", Targets: []*configv1.Target{target}}, "name"},
		"pattern":          {&configv1.Model{Name: "a*", Targets: []*configv1.Target{target}}, "name"},
		"percent":          {&configv1.Model{Name: "a%2Fb", Targets: []*configv1.Target{target}}, "name"},
		"no targets":       {&configv1.Model{Name: "a"}, "targets"},
		"no provider":      {&configv1.Model{Name: "a", Targets: []*configv1.Target{{Model: "m"}}}, "targets[0].provider"},
		"no model": {&configv1.Model{Name: "a", Targets: []*configv1.Target{target, {Provider: "a"}}},
			"targets[1].model"},
		"same target": {&configv1.Model{Name: "a",
			Targets: []*configv1.Target{target, {Provider: "a", Model: "m", Priority: 1}}}, "targets[1]"},
		"heavy": {&configv1.Model{Name: "a",
			Targets: []*configv1.Target{{Provider: "a", Model: "m", Weight: 1 << 30}}}, "targets[0].weight"},
		"too late": {&configv1.Model{Name: "a",
			Targets: []*configv1.Target{{Provider: "a", Model: "m", Priority: 128}}}, "targets[0].priority"},
		"six attempts": {&configv1.Model{Name: "a", Targets: []*configv1.Target{target},
			Retry: &configv1.Retry{MaxAttempts: 6}}, "retry.max_attempts"},
		"retry of a success": {&configv1.Model{Name: "a", Targets: []*configv1.Target{target},
			Retry: &configv1.Retry{StatusCodes: []uint32{503, 200}}}, "retry.status_codes[1]"},
		"retry of a mistake": {&configv1.Model{Name: "a", Targets: []*configv1.Target{target},
			Retry: &configv1.Retry{StatusCodes: []uint32{401, 402, 429, 400}}}, "retry.status_codes[3]"},
		"timeouts": {&configv1.Model{Name: "a", Targets: []*configv1.Target{target},
			Timeouts: &configv1.Timeouts{Idle: durationpb.New(0)}}, "timeouts.idle"},
	} {
		t.Run(name, func(t *testing.T) { requireFields(t, configv1.Validate(tc.model, knownVendor), tc.field) })
	}
}

func TestValidateGateway(t *testing.T) {
	for name, tc := range map[string]struct {
		gateway *configv1.Gateway
		field   string
	}{
		"minimal":         {&configv1.Gateway{Name: "a"}, ""},
		"IPv6":            {&configv1.Gateway{Name: "a", Address: "::1", Port: 443}, ""},
		"name of a host":  {&configv1.Gateway{Name: "a", Address: "localhost"}, "address"},
		"port":            {&configv1.Gateway{Name: "a", Port: 65536}, "port"},
		"plain port":      {&configv1.Gateway{Name: "a", PlainHttpPort: 65536}, "plain_http_port"},
		"same port":       {&configv1.Gateway{Name: "a", Port: 443, PlainHttpPort: 443}, "plain_http_port"},
		"odd certificate": {&configv1.Gateway{Name: "a", Certificate: "A"}, "certificate"},
		"hosts":           {&configv1.Gateway{Name: "a", Hostnames: []string{"a.example.com", "A.example.com"}}, "hostnames"},
		"wild hosts":      {&configv1.Gateway{Name: "a", Hostnames: []string{"*.*.example.com"}}, "hostnames"},
		"a host twice":    {&configv1.Gateway{Name: "a", Hostnames: []string{"*.example.com", "*.example.com"}}, "hostnames"},
		"hops":            {&configv1.Gateway{Name: "a", TrustedHops: 33}, "trusted_hops"},
		"huge":            {&configv1.Gateway{Name: "a", MaxRequestBytes: 1 << 32}, "max_request_bytes"},
		"address limit": {&configv1.Gateway{Name: "a", AddressLimit: &configv1.AddressLimit{RequestsPerSecond: 5,
			Burst: 5}}, ""},
		"no origin": {&configv1.Gateway{Name: "a", Cors: &configv1.Cors{}}, "cors.origins"},
		"a page": {&configv1.Gateway{Name: "a",
			Cors: &configv1.Cors{Origins: []string{"*", "https://*.a.test", "https://a.test/page"}}}, "cors.origins"},
		"other ports": {&configv1.Gateway{Name: "a",
			Cors: &configv1.Cors{Origins: []string{"http://a.test:443", "https://*.a.test:8443", "app://a"}}}, ""},
		"upper case": {&configv1.Gateway{Name: "a", Cors: &configv1.Cors{Origins: []string{"https://A.test"}}},
			"cors.origins"},
		"port of https": {&configv1.Gateway{Name: "a", Cors: &configv1.Cors{Origins: []string{"https://a.test:443"}}},
			"cors.origins"},
		"port of http": {&configv1.Gateway{Name: "a", Cors: &configv1.Cors{Origins: []string{"http://a.test:80"}}},
			"cors.origins"},
		"no header": {&configv1.Gateway{Name: "a", Cors: &configv1.Cors{Origins: []string{"*"},
			Headers: []string{"a b"}}}, "cors.headers"},
		"no burst": {&configv1.Gateway{Name: "a", AddressLimit: &configv1.AddressLimit{Burst: 999}},
			"address_limit.burst"},
		"torrent": {&configv1.Gateway{Name: "a", AddressLimit: &configv1.AddressLimit{RequestsPerSecond: 1_000_001}},
			"address_limit.requests_per_second"},
	} {
		t.Run(name, func(t *testing.T) { requireFields(t, configv1.Validate(tc.gateway, knownVendor), tc.field) })
	}
}

func TestValidateCertificate(t *testing.T) {
	chain, key := pair(t)
	other, otherKey := pair(t)
	for name, tc := range map[string]struct {
		chain string
		key   *configv1.Credential
		field string
	}{
		"pair":         {chain, value(key), ""},
		"chain":        {chain + other, value(key), ""},
		"sealed":       {chain, sealed("[redacted]"), ""},
		"no chain":     {"", value(key), "chain"},
		"not PEM":      {"x", value(key), "chain"},
		"text after":   {chain + "x", value(key), "chain"},
		"key in chain": {chain + key, value(key), "chain"},
		"not X.509": {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), value(key),
			"chain"},
		"no key":         {chain, nil, "private_key"},
		"another's key":  {chain, value(otherKey), "private_key.value"},
		"key is not PEM": {chain, value("x"), "private_key.value"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := configv1.Validate(&configv1.Certificate{Name: "a", Chain: tc.chain, PrivateKey: tc.key}, knownVendor)
			requireFields(t, errs, tc.field)
			require.NotContains(t, errs.Error(), "PRIVATE KEY-----")
		})
	}
}

func TestValidateCertificateOfAFile(t *testing.T) {
	chain, key := pair(t)
	file := &configv1.Credential{Source: &configv1.Credential_File{File: "/tls/tls.key"}}
	for name, tc := range map[string]struct {
		certificate *configv1.Certificate
		field       string
	}{
		"both files":          {&configv1.Certificate{ChainFile: "/tls/tls.crt", PrivateKey: file}, ""},
		"a key that is given": {&configv1.Certificate{ChainFile: "/tls/tls.crt", PrivateKey: value(key)}, ""},
		"chain twice": {&configv1.Certificate{Chain: chain, ChainFile: "/tls/tls.crt", PrivateKey: file},
			"chain_file"},
		"a relative path": {&configv1.Certificate{ChainFile: "tls.crt", PrivateKey: file}, "chain_file"},
		"no key":          {&configv1.Certificate{ChainFile: "/tls/tls.crt"}, "private_key"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.certificate.Name = "a"
			requireFields(t, configv1.Validate(tc.certificate, knownVendor), tc.field)
		})
	}
}

func TestValidateRefusesWhatIsNotStored(t *testing.T) {
	require.Error(t, configv1.Validate(&configv1.Settings{Name: "default"}, knownVendor).Err())
}

func TestValidateStoredDemandsHashesAndSealedCredentials(t *testing.T) {
	for name, tc := range map[string]struct {
		object configv1.Object
		field  string
	}{
		"key":              {&configv1.Key{Name: "a", Hash: make([]byte, 32)}, ""},
		"key without hash": {&configv1.Key{Name: "a"}, "hash"},
		"token":            {&configv1.AdminToken{Name: "a", Scopes: []string{"*"}}, "hash"},
		"password":         {&configv1.Account{Name: "a", Role: configv1.Role_OWNER, Password: "correct horse"}, "password"},
		"account":          {&configv1.Account{Name: "a", Role: configv1.Role_OWNER, PasswordHash: argonHash}, ""},
		"sealed":           {&configv1.Provider{Name: "a", Vendor: "openai", Credential: sealed("AQID")}, ""},
		"in clear":         {&configv1.Provider{Name: "a", Vendor: "openai", Credential: value("sk")}, "credential.value"},
		"redacted": {&configv1.Provider{Name: "a", Vendor: "openai", Credential: sealed("[redacted]")},
			"credential.sealed"},
	} {
		t.Run(name, func(t *testing.T) { requireFields(t, configv1.ValidateStored(tc.object, knownVendor), tc.field) })
	}
}

func TestValidateRoute(t *testing.T) {
	none, slash := "", "/"
	for path, field := range map[string]string{
		"/v1/ocr": "", "/anthropic/": "", "/a-b/c.d_e~f@g:h": "", "/v1/videos": "", "/v1/responses/": "",
		"/v1/responses/x": "",
		"/v1/chatter":     "", "/v2/chat/completions": "", "/v1/images/other": "", "/chat/completions": "",

		"": "path_prefix", "/": "path_prefix", "v1/x": "path_prefix", "/v1/x?y=z": "path_prefix", "/v1/a b": "path_prefix",
		"/v1//x": "path_prefix", "/v1/../x": "path_prefix", "/v1/./x": "path_prefix", "/v1/%2e": "path_prefix",
		"/x#y":                         "path_prefix",
		"/" + strings.Repeat("a", 256): "path_prefix",

		"/v1": "path_prefix", "/v1/": "path_prefix", "/v1/chat": "path_prefix", "/v1/chat/": "path_prefix",
		"/v1/chat/completions": "path_prefix", "/v1/chat/completions/x": "path_prefix", "/v1/completions/": "path_prefix",
		"/v1/models": "path_prefix", "/v1/models/x": "path_prefix", "/v1/responses": "path_prefix",
		"/v1/audio":   "path_prefix",
		"/v1/batches": "path_prefix",
	} {
		t.Run(path, func(t *testing.T) {
			requireFields(t, configv1.Validate(&configv1.Route{Name: "r", Provider: "a", PathPrefix: path}, knownVendor), field)
		})
	}
	for to, field := range map[*string]string{nil: "", &none: "", &slash: "", new("/v2/rerank"): "",
		new("x"): "rewrite_prefix", new("/a/../b"): "rewrite_prefix"} {
		requireFields(t, configv1.Validate(&configv1.Route{Name: "r", Provider: "a", PathPrefix: "/v1/ocr",
			RewritePrefix: to}, knownVendor), field)
	}
	for path, field := range map[string]string{"/v1/responses/": "gateways", "/v1/conversations": "gateways",
		"/v1/ocr": ""} {
		requireFields(t, configv1.Validate(&configv1.Route{Name: "r", Provider: "a", PathPrefix: path,
			Gateways: []string{"edge"}}, knownVendor), field)
	}
	requireFields(t, configv1.Validate(&configv1.Route{Name: "r", Provider: "A", PathPrefix: "/x"}, knownVendor),
		"provider")
}

func TestRewrite(t *testing.T) {
	for path, want := range map[string]string{"/v1/ocr": "/ocr", "/v1": "", "/v1beta/x": "/v1beta/x",
		"/anthropic/": "/anthropic/"} {
		require.Equal(t, want, (&configv1.Route{PathPrefix: path}).Rewrite())
	}
	require.Equal(t, "/x", (&configv1.Route{PathPrefix: "/v1/ocr", RewritePrefix: new("/x")}).Rewrite())
	require.Empty(t, (&configv1.Route{PathPrefix: "/v1/ocr", RewritePrefix: new("")}).Rewrite())
}

func TestDocumentErrorsSayWhere(t *testing.T) {
	docs, err := configv1.ParseYAML("gw.yaml", []byte("\nkind: Provider\nname: a\nvendor: openai\nendpoint: ftp://x\n"))
	require.NoError(t, err)
	require.EqualError(t, docs[0].Validate(knownVendor),
		"gw.yaml:5:1: Provider a: endpoint: must begin with https://, http:// or unix://")
}

func TestValidateSet(t *testing.T) {
	gateway := func(name, address string, port, plain uint32) *configv1.Gateway {
		return &configv1.Gateway{Name: name, Address: address, Port: port, PlainHttpPort: plain}
	}
	certificate := &configv1.Certificate{Name: "default"}
	for name, tc := range map[string]struct {
		objects []configv1.Object
		want    string
	}{
		"complete": {[]configv1.Object{
			&configv1.Model{Name: "m", Targets: []*configv1.Target{{Provider: "a"}}}, &configv1.Provider{Name: "a"},
			certificate, gateway("g", "", 443, 80),
		}, ""},
		"no provider": {[]configv1.Object{&configv1.Model{Name: "m", Targets: []*configv1.Target{{Provider: "a"}}}},
			"Model m: targets[0].provider: Provider a does not exist"},
		"no certificate": {[]configv1.Object{gateway("g", "", 443, 0)},
			"Gateway g: certificate: Certificate default does not exist"},
		"twice": {[]configv1.Object{certificate, certificate}, "Certificate default: is given twice"},
		"same port": {[]configv1.Object{certificate, gateway("g", "", 443, 0), gateway("h", "", 443, 0)},
			"Gateway h: port: port 443 is already taken by port of Gateway g"},
		"all addresses": {[]configv1.Object{certificate, gateway("g", "10.0.0.1", 443, 0), gateway("h", "::", 443, 0)},
			"Gateway h: port: port 443 is already taken by port of Gateway g"},
		"plain port": {[]configv1.Object{certificate, gateway("g", "", 443, 80), gateway("h", "", 80, 0)},
			"Gateway h: port: port 80 is already taken by plain_http_port of Gateway g"},
		"two addresses": {[]configv1.Object{certificate, gateway("g", "10.0.0.1", 443, 0),
			gateway("h", "10.0.0.2", 443, 0)}, ""},
		"a route": {[]configv1.Object{&configv1.Provider{Name: "a"}, &configv1.Route{Name: "r", Provider: "a",
			PathPrefix: "/x"}, &configv1.Route{Name: "s", Provider: "a", PathPrefix: "/x/y"}}, ""},
		"a route of no gateway": {[]configv1.Object{&configv1.Provider{Name: "a"}, &configv1.Route{Name: "r", Provider: "a",
			PathPrefix: "/x", Gateways: []string{"edge"}}}, "Route r: gateways[0]: Gateway edge does not exist"},
		"a lost route": {[]configv1.Object{&configv1.Route{Name: "r", Provider: "a", PathPrefix: "/x"}},
			"Route r: provider: Provider a does not exist"},
		"same path": {[]configv1.Object{&configv1.Provider{Name: "a"}, &configv1.Route{Name: "r", Provider: "a",
			PathPrefix: "/x"}, &configv1.Route{Name: "s", Provider: "a", PathPrefix: "/x/"}},
			"Route s: path_prefix: is the same as that of Route r"},
		"chosen ports": {[]configv1.Object{certificate, gateway("g", "", 0, 0), gateway("h", "", 0, 0)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := configv1.ValidateSet(tc.objects).Err()
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestDefaults(t *testing.T) {
	var p configv1.Provider
	require.Equal(t, 5*time.Second, p.GetTimeouts().ConnectTimeout())
	require.Equal(t, 120*time.Second, p.GetTimeouts().FirstByteTimeout())
	require.Equal(t, 120*time.Second, p.GetTimeouts().IdleTimeout())
	require.True(t, p.AllowsUnlisted())
	require.False(t, p.DropsUnsupported())

	one := &configv1.Model{Targets: make([]*configv1.Target, 1)}
	require.Equal(t, 2, one.Attempts())
	require.Equal(t, []uint32{408, 500, 502, 503, 504, 529}, one.RetryStatuses())
	two := &configv1.Model{Targets: make([]*configv1.Target, 2)}
	require.Equal(t, []uint32{408, 429, 500, 502, 503, 504, 529}, two.RetryStatuses())
	require.Equal(t, 5, (&configv1.Model{Targets: make([]*configv1.Target, 9)}).Attempts())
	require.Equal(t, 1, (&configv1.Model{Retry: &configv1.Retry{MaxAttempts: 1}}).Attempts())
	require.Equal(t, "modelgate", one.Owner())
	require.Equal(t, 10*time.Second, p.GetConcurrency().WaitLimit())
	var door configv1.Gateway
	require.EqualValues(t, 10_000, door.GetAddressLimit().Rate())
	require.EqualValues(t, 20_000, door.GetAddressLimit().Bucket())
	require.EqualValues(t, 6, (&configv1.AddressLimit{RequestsPerSecond: 3}).Bucket())
	require.EqualValues(t, 1, (&configv1.Target{}).Share())

	var g configv1.Gateway
	require.Equal(t, "0.0.0.0", g.ListenAddress())
	require.Equal(t, "default", g.CertificateName())
	require.EqualValues(t, 33554432, g.RequestLimit())

	own := &configv1.Timeouts{Idle: durationpb.New(time.Second)}
	below := &configv1.Timeouts{Idle: durationpb.New(time.Hour), Connect: durationpb.New(time.Minute)}
	merged := own.Over(below)
	require.Equal(t, time.Second, merged.IdleTimeout())
	require.Equal(t, time.Minute, merged.ConnectTimeout())
	require.Equal(t, 120*time.Second, merged.FirstByteTimeout())
	require.Equal(t, time.Hour, (*configv1.Timeouts)(nil).Over(below).IdleTimeout())
}

func TestASecretInVaultIsAPlainPathAndAField(t *testing.T) {
	errsOf := func(path, field string) configv1.Errors {
		return configv1.Validate(&configv1.Provider{Name: "a", Vendor: "openai", Credential: &configv1.Credential{
			Source: &configv1.Credential_Vault{Vault: &configv1.VaultSecret{Path: path, Field: field}}}}, knownVendor)
	}
	for _, good := range []string{"secret/data/openai", "kv/a.b_c-d@e:f", "secret/data/...x", strings.Repeat("a", 512)} {
		require.Empty(t, errsOf(good, "api key"), good)
	}
	for _, bad := range []string{"", "/secret/data/a", "secret/data/a/", "secret//a", "secret/../sys/seal", "../sys",
		"..", ".", "./a", "secret/.", "secret/a?version=1", "secret/a#b", "secret/%2e%2e/a", "secret/*", "secret/a b",
		"a\\b",
		"a\nb", "a\xff", strings.Repeat("a", 513)} {
		errs := errsOf(bad, "key")
		require.Len(t, errs, 1, bad)
		require.Equal(t, "credential.vault.path", errs[0].Field)
	}
	for _, bad := range []string{"", "a\nb", strings.Repeat("a", 129)} {
		errs := errsOf("secret/data/a", bad)
		require.Len(t, errs, 1, bad)
		require.Equal(t, "credential.vault.field", errs[0].Field)
	}
}
