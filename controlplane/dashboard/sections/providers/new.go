package providers

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// A Vendor is what the form of a new provider asks for.
type Vendor struct {
	Name string
	// Endpoint is the vendor's own. Without one, NeedsEndpoint says whether the form must give it.
	Endpoint      string
	NeedsEndpoint bool
	// Fields are those of region, project and api_version that the vendor reads.
	Fields []string
	// Variable is where the vendor's own SDK expects a key. Cloud is the cloud whose identities it takes.
	Variable, Cloud string
	// Lists is set if the vendor has a list of models.
	Lists bool
}

// Reads reports whether the vendor reads a field.
func (v Vendor) Reads(field string) bool { return slices.Contains(v.Fields, field) }

// Places are the fields that make the vendor's endpoint if none is given.
func (v Vendor) Places() []string {
	return slices.DeleteFunc(slices.Clone(v.Fields), func(f string) bool { return f == "api_version" })
}

// A newData is what the form of a new provider shows.
type newData struct {
	Provider *configv1.Provider
	Vendor   Vendor
	// Source is where the credential is, as the form says.
	Source string
	// Test is what came of the test. It is nil before one, and Listed are the models that the vendor has and that are not
	// named yet.
	Test   *adminapi.ProviderTest
	Listed []string
	// Faults are what is wrong with fields.
	Faults forms.Faults
	// Part is set if only what came of the test is shown.
	Part bool
}

const titleNew = "New provider"

// vendor returns the vendor of a name, which somebody chose.
func (s section) vendor(name string) (Vendor, bool) {
	i := slices.IndexFunc(s.vendors, func(v Vendor) bool { return v.Name == name })
	if i < 0 {
		return Vendor{}, false
	}
	return s.vendors[i], true
}

// form asks for the vendor, and then for what the vendor needs.
func (s section) form(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	of, ok := s.vendor(q.Get("vendor"))
	if !ok {
		return v.Render(w, "provider-vendor", titleNew, struct {
			Vendors []Vendor
			Model   string
		}{s.vendors, q.Get("model")})
	}
	p := &configv1.Provider{Name: of.Name, Vendor: of.Name}
	if model := q.Get("model"); model != "" {
		p.Models = []string{model}
	}
	return v.Render(w, "provider-new", titleNew, newData{Provider: p, Vendor: of, Source: "value"})
}

// create tests what is in the form, and adds it if the person says so: after a successful test, or in spite of one
// that failed. The credential is in the form alone, so that nothing has to keep it in between.
func (s section) create(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	p := &configv1.Provider{Name: strings.TrimSpace(r.PostForm.Get("name"))}
	data := newData{Provider: p, Source: r.PostForm.Get("credential_source"),
		Part: r.Header.Get("HX-Target") != ""}
	read := readNew(r.PostForm, p)
	data.Vendor, _ = s.vendor(p.GetVendor())
	again := func(status int, problem string) error {
		data.Provider = withoutTyped(p)
		return v.RenderStatus(w, status, "provider-new", titleNew, data, problem)
	}
	if action := r.PostForm.Get("action"); read == nil && action != "anyway" {
		found, err := s.try(v, r, p)
		if err != nil {
			read = err
		} else if data.tested(found); action != "add" || !found.OK {
			return again(http.StatusOK, "")
		}
	}
	err := read
	if err == nil {
		err = v.Create(r, p)
	}
	if message, ok := page.Refused(err); ok {
		data.Faults = forms.FaultsOf(err)
		return again(http.StatusUnprocessableEntity, message)
	}
	return v.Done(w, r, err, page.Path("providers", p.GetName()), "created")
}

// try asks the vendor with what is in the form.
func (s section) try(v *page.Visit, r *http.Request, p *configv1.Provider) (adminapi.ProviderTest, error) {
	body, err := configv1.MarshalJSON(p)
	if err != nil {
		return adminapi.ProviderTest{}, err
	}
	return v.API.TryProvider(r.Context(), body)
}

func (d *newData) tested(found adminapi.ProviderTest) {
	d.Test = &found
	for _, name := range found.ModelNames {
		if !slices.Contains(d.Provider.GetModels(), name) {
			d.Listed = append(d.Listed, name)
		}
	}
}

// readNew puts what the form of a new provider says into it. Models are those that are typed, and those that are
// chosen from the vendor's list.
func readNew(f url.Values, p *configv1.Provider) error {
	err := forms.Read(f, p, "vendor", "endpoint", "region", "project", "api_version", "models")
	for _, name := range f["listed"] {
		if !slices.Contains(p.GetModels(), name) {
			p.Models = append(p.Models, name)
		}
	}
	if f.Get("allow_unlisted_models") == "" {
		p.AllowUnlistedModels = proto.Bool(false)
	}
	readCredential(f, p)
	return err
}

// withoutTyped returns a provider without a credential that somebody typed, which is not shown again.
func withoutTyped(p *configv1.Provider) *configv1.Provider {
	if _, typed := p.GetCredential().GetSource().(*configv1.Credential_Value); typed {
		p = proto.CloneOf(p)
		p.Credential = nil
	}
	return p
}
