package configv1

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/modelgate/modelgate/api/config/options"
)

func noVendors(string) (Vendor, bool) { return Vendor{}, true }

// TestEveryFormIsChecked has each form refuse a text, so that none is only stated.
func TestEveryFormIsChecked(t *testing.T) {
	unchecked := []options.Form{options.Form_FORM_UNSPECIFIED, options.Form_RULE,
		options.Form_TIMEOUT} // of durations: see duration
	wrong := "\x00" + string(make([]byte, 3000))
	for n, name := range options.Form_name {
		form := options.Form(n)
		v := &validator{kind: "JobService", at: "x."}
		v.form("y", form, wrong)
		if len(v.errs) == 0 {
			require.Contains(t, unchecked, form, name)
		} else {
			require.Equal(t, "x.y", v.errs[0].Field, name)
		}
	}
}

// TestOptionsSuitTheirFields finds options that the walk would not look at.
func TestOptionsSuitTheirFields(t *testing.T) {
	for message, fields := range statedFields() {
		for _, f := range fields {
			number := f.Kind() == protoreflect.Uint32Kind || f.Kind() == protoreflect.Uint64Kind
			duration := f.Message() != nil && f.Message().Name() == "Duration"
			text := f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind
			form := f.GetForm() != options.Form_FORM_UNSPECIFIED && f.GetForm() != options.Form_RULE
			require.True(t, f.GetNumber() == nil || number, "%s.%s", message, f.Name())
			require.True(t, f.GetSeconds() == nil || duration, "%s.%s", message, f.Name())
			require.Equal(t, form && duration, f.GetForm() == options.Form_TIMEOUT, "%s.%s", message, f.Name())
			require.True(t, !form || text || duration, "%s.%s", message, f.Name())
			list := f.IsList() && !f.IsMap()
			require.True(t, list || f.GetItems() == nil && f.GetElements() == 0 && !f.GetDistinct(), "%s.%s", message, f.Name())
			if f.GetNeeds() != "" {
				of := f.ContainingMessage().Fields().ByName(protoreflect.Name(f.GetNeeds()))
				require.NotNil(t, of, "%s.%s", message, f.Name())
			}
		}
	}
}

func TestOptionsAreCheckedAtAnyDepth(t *testing.T) {
	for _, c := range []struct {
		object Object
		want   []string
	}{
		{&Checker{Name: "a", Type: CheckerType_CHAT, Url: "https://a.example/", Model: "m",
			Credential: &Credential{Source: &Credential_Vault{Vault: &VaultSecret{Path: "/a", Field: "f"}}}},
			[]string{"credential.vault.path"}},
		{&Key{Name: "a", Left: &Departure{At: &timestamppb.Timestamp{Nanos: -1}}}, []string{"left.at"}},
		{&Catalog{Name: "default", Models: []*ModelFacts{{Models: []string{"m", ""},
			Price: &Price{Input: "x", ServiceTiers: []*ServiceTierPrice{{Name: "n", Factor: "-1"}}}}}},
			[]string{"models[0].models[1]", "models[0].price.input", "models[0].price.service_tiers[0].factor"}},
		{&Organization{Name: "a", KeysOfLeavers: 99}, []string{"keys_of_leavers"}},
		{&Provider{Name: "a", Vendor: "v", UnsupportedParameters: 7}, []string{"unsupported_parameters"}},
		{&Policy{Name: "a", Project: "p", Rules: []*PolicyRule{{Name: "r", Deny: "true"}, {Name: "r", Deny: "("}}},
			[]string{"project", "rules[1].deny", "rules[1]"}},
	} {
		var fields []string
		for _, e := range Validate(c.object, noVendors) {
			fields = append(fields, e.Field)
		}
		require.Equal(t, c.want, fields, Label(c.object))
	}
}
