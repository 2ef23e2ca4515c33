// Package providers is the pages of providers.
//
// A credential that somebody types is never shown again, also if the form is refused.
package providers

import (
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/figures"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// A section is the pages, and the names of the vendors that their forms offer.
type section struct{ vendors []Vendor }

// Section returns the pages.
func Section(vendors []Vendor) page.Section {
	s := section{vendors}
	return page.Section{
		Place: 70,
		Lines: []page.Line{
			{Group: page.GroupModels, Path: "/providers", Name: "Providers", Scope: authz.ConfigRead},
		},
		Routes: []page.Route{
			page.Get("/providers", authz.ConfigRead, list),
			page.Post("/providers", authz.ConfigWrite, s.create),
			page.Get("/new/provider", authz.ConfigWrite, s.form),
			page.Get("/providers/{name}", authz.ConfigRead, s.show),
			page.Post("/providers/{name}", authz.ConfigWrite, s.change),
		},
		Templates: templates,
		Functions: template.FuncMap{"credential": credentialText, "healthTag": healthTag, "sources": sources},
	}
}

func kind() configv1.Kind { return configv1.KindOf((*configv1.Provider)(nil)) }

func list(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	found, err := v.List(r, kind())
	if err != nil {
		return err
	}
	data := providersData{found, map[string]adminapi.Totals{}, map[string]*adminapi.ProviderHealth{}}
	if v.Principal.May(authz.UsageRead) {
		summary, err := v.API.Summary(r.Context(), adminapi.ListOptions{})
		if _, err = page.Unavailable(err); err != nil {
			return err
		}
		for _, t := range summary.Providers {
			data.Traffic[t.Name] = t.Totals
		}
	}
	if v.Principal.May(authz.StatusRead) {
		health, err := v.API.Health(r.Context())
		if _, err = page.Unavailable(err); err != nil {
			return err
		}
		for i := range health.Providers {
			data.Health[health.Providers[i].Provider] = &health.Providers[i]
		}
	}
	return v.Render(w, "providers", "Providers", data)
}

// healthTag returns the class of the tag of a provider's state.
func healthTag(state string) string {
	switch state {
	case adminapi.ProviderOK:
		return "good"
	case adminapi.ProviderFailing:
		return "bad"
	case adminapi.ProviderDegraded, adminapi.ProviderCooling:
		return "warn"
	}
	return ""
}

// A providersData is what the list of providers shows.
type providersData struct {
	page.List
	// Traffic is the last 24 hours of the providers that cost most.
	Traffic map[string]adminapi.Totals
	// Health is how the attempts at each provider went.
	Health map[string]*adminapi.ProviderHealth
}

// A providerData is what the pages of one provider show.
type providerData struct {
	Provider *configv1.Provider
	Vendors  []Vendor
	Status   adminapi.Status
	Test     *adminapi.ProviderTest
	Models   []adminapi.Item // that have it as a target
	Health   *adminapi.ProviderHealth
	Activity *figures.Activity
}

// save stores what is in the form.
func save(v *page.Visit, w http.ResponseWriter, r *http.Request, data providerData, title string) error {
	read := readProvider(r.PostForm, data.Provider)
	return v.Save(w, r, data.Provider, false, read, page.Path("providers", data.Provider.GetName()),
		func(status int, problem string) error {
			data.Provider = withoutTyped(data.Provider)
			return v.RenderStatus(w, status, "provider", title, data, problem)
		})
}

// readProvider puts what a form says into a provider. A credential that the form does not give stays.
func readProvider(f url.Values, p *configv1.Provider) error {
	get := func(name string) string { return strings.TrimSpace(f.Get(name)) }
	err := forms.Read(f, p, "vendor", "endpoint", "region", "project", "api_version", "models", "operations", "headers",
		"disabled", "native_batches", "full_names_only", "shared_objects", "untouched_answers", "trace_context")
	// What is not set stays so, if that means the same.
	if allowed := get("allow_unlisted_models") != ""; allowed != p.AllowsUnlisted() {
		p.AllowUnlistedModels = proto.Bool(allowed)
	}
	how := configv1.UnsupportedParameters(configv1.UnsupportedParameters_value[get("unsupported_parameters")])
	if drops := how == configv1.UnsupportedParameters_DROP; drops != p.DropsUnsupported() {
		p.UnsupportedParameters = how
	}
	readCredential(f, p)
	most, errMost := forms.Small(get("max_requests"), "max_requests")
	pending, errPending := forms.Small(get("max_pending"), "max_pending")
	if most == 0 && pending == 0 {
		p.Concurrency = nil
	} else {
		if p.Concurrency == nil {
			p.Concurrency = &configv1.Concurrency{}
		}
		p.Concurrency.MaxRequests, p.Concurrency.MaxPending = most, pending
	}
	return cmp.Or(err, errMost, errPending)
}

// readCredential puts what a form says of a credential into a provider. What the form does not say stays.
func readCredential(f url.Values, p *configv1.Provider) {
	switch value := strings.TrimSpace(f.Get("credential")); f.Get("credential_source") {
	case "value":
		if value != "" {
			p.Credential = &configv1.Credential{Source: &configv1.Credential_Value{Value: value}}
		}
	case "env":
		p.Credential = &configv1.Credential{Source: &configv1.Credential_Env{Env: value}}
	case "file":
		p.Credential = &configv1.Credential{Source: &configv1.Credential_File{File: value}}
	case "vault":
		path, field := cutLast(value, '#')
		p.Credential = &configv1.Credential{Source: &configv1.Credential_Vault{
			Vault: &configv1.VaultSecret{Path: path, Field: field}}}
	case "secret_manager":
		name, field, _ := strings.Cut(value, "#")
		p.Credential = &configv1.Credential{Source: &configv1.Credential_SecretManager{
			SecretManager: &configv1.ManagedSecret{Name: name, Field: field}}}
	case "workload_identity":
		p.Credential = &configv1.Credential{Source: &configv1.Credential_WorkloadIdentity{
			WorkloadIdentity: &configv1.WorkloadIdentity{As: value}}}
	case "none":
		p.Credential = nil
	}
}

// sources are the places where a credential can be.
func sources() []forms.Choice {
	return []forms.Choice{
		{Value: "value", Name: "entered here, stored encrypted"},
		{Value: "env", Name: "an environment variable of the control plane"},
		{Value: "file", Name: "a file of the control plane"},
		{Value: "vault", Name: "a secret in Vault or OpenBao"},
		{Value: "secret_manager", Name: "a secret in a cloud's secret manager"},
		{Value: "workload_identity", Name: "the control plane's identity in the cloud"},
		{Value: "none", Name: "no credential"},
	}
}

// cutLast splits a text at the last mark.
func cutLast(text string, mark byte) (before, after string) {
	i := strings.LastIndexByte(text, mark)
	if i < 0 {
		return text, ""
	}
	return text[:i], text[i+1:]
}

func (s section) one(v *page.Visit, r *http.Request) (providerData, error) {
	data := providerData{Vendors: s.vendors}
	var err error
	data.Provider, data.Status, err = page.Stored[*configv1.Provider](v, r)
	if err != nil {
		return data, err
	}
	models, err := v.API.List(r.Context(), configv1.KindOf((*configv1.Model)(nil)))
	if err != nil {
		return data, err
	}
	for _, item := range models {
		m, _ := item.Object.(*configv1.Model)
		for _, t := range m.GetTargets() {
			if t.GetProvider() == data.Provider.GetName() {
				data.Models = append(data.Models, item)
				break
			}
		}
	}
	return data, nil
}

func (s section) show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, err := s.one(v, r)
	if err != nil {
		return err
	}
	if data.Health, err = healthOf(v, r, data.Provider.GetName()); err != nil {
		return err
	}
	data.Activity, err = figures.ActivityOf(v, r, "provider", data.Provider.GetName(), "model", "Model")
	if err != nil {
		return err
	}
	return v.Render(w, "provider", "Provider "+data.Provider.GetName(), data)
}

// healthOf returns how the attempts at a provider went. It is nil if that is not known, or not for this person.
func healthOf(v *page.Visit, r *http.Request, name string) (*adminapi.ProviderHealth, error) {
	if !v.Principal.May(authz.StatusRead) {
		return nil, nil
	}
	health, err := v.API.Health(r.Context())
	if _, err = page.Unavailable(err); err != nil {
		return nil, err
	}
	for i := range health.Providers {
		if health.Providers[i].Provider == name {
			return &health.Providers[i], nil
		}
	}
	return nil, nil
}

func (s section) change(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, err := s.one(v, r)
	if err != nil {
		return err
	}
	title := "Provider " + data.Provider.GetName()
	if r.PostForm.Get("action") == "test" {
		test, err := v.API.TestProvider(r.Context(), data.Provider.GetName())
		if message, ok := page.Refused(err); ok {
			test, err = adminapi.ProviderTest{Message: message}, nil
		}
		if err != nil {
			return err
		}
		data.Test = &test
		return v.Render(w, "provider", title, data)
	}
	return save(v, w, r, data, title)
}

// credentialText says where a credential is, never what it is.
func credentialText(c *configv1.Credential) string {
	switch s := c.GetSource().(type) {
	case *configv1.Credential_Env:
		return "environment variable " + s.Env
	case *configv1.Credential_File:
		return "file " + s.File
	case *configv1.Credential_Vault:
		return "Vault, field " + s.Vault.GetField() + " of " + s.Vault.GetPath()
	case *configv1.Credential_SecretManager:
		if field := s.SecretManager.GetField(); field != "" {
			return "secret manager, field " + field + " of " + s.SecretManager.GetName()
		}
		return "secret manager, " + s.SecretManager.GetName()
	case *configv1.Credential_WorkloadIdentity:
		return strings.TrimSpace("workload identity " + s.WorkloadIdentity.GetAs())
	case *configv1.Credential_Sealed, *configv1.Credential_Value:
		return "stored, encrypted"
	}
	return "none"
}
