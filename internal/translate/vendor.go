package translate

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
)

// mask is shown in place of a credential.
const mask = "***"

// A placeholder stands for what an operator has not said.
type placeholder struct {
	endpoint, region, project, credential string
}

// placeholders are the values for vendors that cannot be addressed, or whose requests cannot be signed, without
// configuration. Credentials have the vendor's form, so that the vendor's request has every header.
var placeholders = map[string]placeholder{
	"azure":   {endpoint: "https://RESOURCE.openai.azure.com"},
	"bedrock": {region: "us-east-1", credential: "AKIAIOSFODNN7EXAMPLE:CREDENTIAL"},
	"vertex":  {region: "us-central1", project: "PROJECT"},
}

// anyCredential is signed with where a vendor takes credentials of any form.
const anyCredential = "CREDENTIAL"

// anyEndpoint is where a vendor serves that has no place of its own.
const anyEndpoint = "http://ENDPOINT/v1"

// Complete returns the configuration of a provider with defaults for the fields that the address of p needs.
// The given configuration must not be modified afterwards.
func Complete(p provider.Provider, c *configv1.Provider) *configv1.Provider {
	own := placeholders[p.Name]
	c.Name, c.Vendor = cmp.Or(c.GetName(), p.Name), p.Name
	c.Region, c.Project = cmp.Or(c.GetRegion(), own.region), cmp.Or(c.GetProject(), own.project)
	if _, err := p.Endpoint(c); err != nil && c.GetEndpoint() == "" {
		c.Endpoint = cmp.Or(own.endpoint, anyEndpoint)
	}
	return c
}

// A VendorRequest is what goes to a vendor, with credentials masked.
type VendorRequest struct {
	Method string
	URL    string
	Header map[string]string // names in lower case
	Body   []byte
	// Names of parameters: see provider.Request.
	Dropped, Adjusted []string
}

// Placeholder returns a credential that stands for the operator's, in the form that the vendor takes.
func Placeholder(vendor string) string { return cmp.Or(placeholders[vendor].credential, anyCredential) }

// Sign addresses and signs a request as the gateway would, with a credential that stands for the operator's.
func Sign(p provider.Provider, c *configv1.Provider, r provider.Request, now time.Time) (VendorRequest, error) {
	endpoint, err := p.Endpoint(c)
	if err != nil {
		return VendorRequest{}, err
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	err = p.Sign(&r, provider.Signing{Config: c, Credential: secret.New(Placeholder(p.Name)), Method: http.MethodPost,
		Endpoint: endpoint, Now: now})
	if err != nil {
		return VendorRequest{}, err
	}
	out := VendorRequest{Method: http.MethodPost, URL: Address(endpoint) + r.Path, Header: map[string]string{},
		Body: r.Body, Dropped: r.Dropped, Adjusted: r.Adjusted}
	for name, values := range r.Header {
		out.SetHeader(name, values[0])
	}
	for name, value := range c.GetHeaders() {
		out.Header[strings.ToLower(name)] = value
	}
	return out, nil
}

// SetHeader adds a header of a request that was signed with a Placeholder, without the credential in it.
func (r *VendorRequest) SetHeader(name, value string) {
	name = strings.ToLower(name)
	if name == "authorization" || strings.Contains(value, anyCredential) {
		value = masked(value)
	}
	r.Header[name] = value
}

// masked returns a header without the credential in it: what scheme it is of remains.
func masked(value string) string {
	if scheme, _, ok := strings.Cut(value, " "); ok {
		return scheme + " " + mask
	}
	return mask
}

// Address returns the URL of an endpoint, without a slash at its end.
func Address(e provider.Endpoint) string {
	if e.Pipe != "" {
		return "unix://" + e.Pipe
	}
	scheme := "http"
	if e.TLS {
		scheme = "https"
	}
	return scheme + "://" + e.Authority() + e.Path
}

// appendNames appends an array of names, if there are any, behind what begins it.
func appendNames(dst []byte, begin string, names []string) []byte {
	for i, name := range names {
		if i == 0 {
			dst = append(dst, begin...)
		} else {
			dst = append(dst, ',')
		}
		dst = openai.AppendString(dst, name)
	}
	if len(names) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// AppendJSON appends the request as JSON to dst: the body as it is where it is JSON, and else as body_base64.
func (r VendorRequest) AppendJSON(dst []byte) []byte {
	dst = openai.AppendString(append(dst, `{"method":`...), r.Method)
	dst = openai.AppendString(append(dst, `,"url":`...), r.URL)
	dst = append(dst, `,"headers":{`...)
	for i, name := range slices.Sorted(maps.Keys(r.Header)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = openai.AppendString(append(openai.AppendString(dst, name), ':'), r.Header[name])
	}
	dst = append(dst, '}')
	dst = appendNames(dst, `,"dropped":[`, r.Dropped)
	dst = appendNames(dst, `,"adjusted":[`, r.Adjusted)
	if jsonwalk.Valid(r.Body) {
		return append(append(append(dst, `,"body":`...), bytes.TrimSpace(r.Body)...), '}')
	}
	dst = append(dst, `,"body_base64":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, r.Body), `"}`...)
}
