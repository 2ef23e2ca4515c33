package dashboard_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A form that is sent as it was shown changes nothing, whatever the object has.
func TestAFormThatIsSentAsItWasShownChangesNothing(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	limits := []*configv1.Limit{
		{Domain: "requests", Unit: configv1.Unit_SECOND, RequestsPerUnit: 10, Model: "gpt-*"},
		{Domain: "tokens", Unit: configv1.Unit_DAY, RequestsPerUnit: 1_000_000}, {Domain: "concurrency", RequestsPerUnit: 3}}
	budgets := []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "0.50"}, {Unit: configv1.Unit_MONTH, Usd: "10"}}
	for _, shown := range []struct {
		path   string
		object configv1.Object
	}{
		{"/organizations/acme", &configv1.Organization{Name: "acme", DisplayName: "Acme", Limits: limits, Budgets: budgets,
			Disabled: true, KeysOfLeavers: configv1.KeysOfLeavers_KEEP, Successor: "grace"}},
		{"/projects/acme/web", &configv1.Project{Name: "acme/web", DisplayName: "Web", Limits: limits[:1]}},
		{"/providers/own", &configv1.Provider{Name: "own", Vendor: "openai", Endpoint: "https://models.example/v1",
			Models: []string{"a", "b/c"}, AllowUnlistedModels: proto.Bool(false), FullNamesOnly: true, NativeBatches: true,
			SharedObjects: true, UntouchedAnswers: true, TraceContext: true, Operations: []string{"chat/completions"},
			Headers:               map[string]string{"x-team": "a=b", "x-of": "gateway"},
			UnsupportedParameters: configv1.UnsupportedParameters_DROP, Disabled: true,
			Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "sk-secret"}},
			Concurrency: &configv1.Concurrency{MaxRequests: 7, MaxPending: 9,
				MaxWait: durationpb.New(3 * time.Second)}}},
		{"/providers/plain", &configv1.Provider{Name: "plain", Vendor: "echo"}},
		{"/models/team/fast", &configv1.Model{Name: "team/fast", OwnedBy: "team", Targets: []*configv1.Target{
			{Provider: "own", Model: "a", Weight: 2, Priority: 1}, {Provider: "plain", Model: "b"}},
			Retry: &configv1.Retry{MaxAttempts: 3, StatusCodes: []uint32{429}}}},
		{"/policies/office", &configv1.Policy{Name: "office", Disabled: true, Organization: "acme",
			Rules: []*configv1.PolicyRule{{Name: "tools", Deny: "size(tools) > 0", Message: "No tools.", Observe: true},
				{Name: "small", When: "size < 100", UseModel: "team/fast"},
				{Name: "lines", When: "size < 100\n&& stream", UseModel: "team/fast"}}}},
		{"/accounts/grace", &configv1.Account{Name: "grace", DisplayName: "Grace", Role: configv1.Role_AUDITOR,
			ReadBodies: true, BreakGlass: true, Disabled: true, Password: goodPassword,
			Memberships: []*configv1.Membership{{Organization: "acme", Project: "web", Role: configv1.Role_MEMBER},
				{Organization: "acme", Role: configv1.Role_ADMIN}}}},
	} {
		t.Run(strings.Trim(shown.path, "/"), func(t *testing.T) {
			_, err := b.api.Put(t.Context(), shown.object, 0)
			require.NoError(t, err)
			b.sendsBack(t, owner, shown.path, shown.object)
		})
	}
	owner.get("/new/key")
	made := owner.post("/keys", "display_name", "Robot")
	require.Equal(t, 200, made.status)
	item, err := b.api.List(t.Context(), configv1.KeyKind())
	require.NoError(t, err)
	key, ok := item[0].Object.(*configv1.Key)
	require.True(t, ok)
	key.Organization, key.Project, key.Models, key.Endpoints = "acme", "web", []string{"a", "gpt-*"}, []string{"models"}
	key.Addresses, key.Limits, key.Budgets = []string{"192.0.2.0/24"}, limits, budgets
	key.Metadata = map[string]string{"team": "a=b", "note": "x"}
	key.ExpiresAt = timestamppb.New(time.Date(2099, 1, 2, 3, 4, 59, 0, time.UTC))
	_, err = b.api.Put(t.Context(), key, 0)
	require.NoError(t, err)
	b.sendsBack(t, owner, "/keys/"+key.GetName(), key)
}

// sendsBack sends the form of an object's page as it is, and compares the object with what it was.
func (b *bench) sendsBack(t *testing.T, w *browser, path string, object configv1.Object) {
	t.Helper()
	before, err := b.api.Get(t.Context(), configv1.KindOf(object), object.GetName())
	require.NoError(t, err)
	body := w.get(path).body
	hasItsFields(t, body, object)
	form := formOf(t, body)
	if form.Get("action") == "" {
		form.Set("action", "save")
	}
	sent := w.postForm(path, form, "Origin", b.url, "Sec-Fetch-Site", "same-origin")
	require.Equal(t, 303, sent.status, text(sent.body))
	after, err := b.api.Get(t.Context(), configv1.KindOf(object), object.GetName())
	require.NoError(t, err)
	was, err := configv1.MarshalYAML(before.Object)
	require.NoError(t, err)
	is, err := configv1.MarshalYAML(after.Object)
	require.NoError(t, err)
	require.Equal(t, string(was), string(is))
}

// shownAs are the controls for messages, which have names of their own in forms.
var shownAs = map[string]string{
	"Budget": "budget_day", "Limit": "limit_amount", "Credential": "credential_source", "Concurrency": "max_requests",
	"Target": "target_model", "Retry": "max_attempts", "PolicyRule": "rule_name",
}

// notInForms are the fields that only the YAML of an object has, with the reason.
var notInForms = map[string]string{
	"Organization.created_at": stamped, "Project.created_at": stamped, "Model.created_at": stamped,
	"Account.created_at": stamped, "Key.created_at": stamped,
	"Organization.quotas": structured, "Project.quotas": structured, "Organization.bodies": structured,
	"Project.bodies": structured, "Key.bodies": structured, "Provider.timeouts": structured, "Model.timeouts": structured,
	"Provider.tls":         structured,
	"Model.fine_tuned":     "the job service sets it",
	"Account.identity":     "a sign-in or a directory sets it",
	"Account.tenant":       "it is set once, by who creates the account",
	"Account.provisioning": "a directory sets it", "Account.password_hash": "nobody writes it",
	"Key.hash": "nobody writes it", "Key.hint": "nobody writes it", "Key.retired": "the page has a button",
	"Key.disabled": "the page has a button", "Key.left": "nobody writes it",
	"Key.owner": "it is set when the key is created",
}

const (
	stamped    = "it is set when the object is first stored"
	structured = "it has parts, and few objects have it"
)

// hasItsFields fails for a field of a kind that is not in its form: an operator would look for it there.
func hasItsFields(t *testing.T, body string, object configv1.Object) {
	t.Helper()
	controls := map[string]bool{}
	document, err := html.Parse(strings.NewReader(body))
	require.NoError(t, err)
	for n := range document.Descendants() {
		controls[attribute(n, "name")] = true
	}
	fields := object.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := string(f.Name())
		if m := f.Message(); m != nil && shownAs[string(m.Name())] != "" {
			name = shownAs[string(m.Name())]
		}
		reason := notInForms[string(f.Parent().Name())+"."+string(f.Name())]
		if name != "name" && controls[name] == (reason != "") {
			t.Errorf("%s.%s: in the form: %v; why not: %q", f.Parent().Name(), f.Name(), controls[name], reason)
		}
	}
}

// formOf returns what a browser sends of the form of a page that has a revision, without a button.
func formOf(t *testing.T, body string) url.Values {
	t.Helper()
	document, err := html.Parse(strings.NewReader(body))
	require.NoError(t, err)
	for n := range document.Descendants() {
		if n.Data != "form" || attribute(n, "method") != "post" {
			continue
		}
		if values := controls(n); values.Has("revision") {
			return values
		}
	}
	require.Fail(t, "the page has no form of an object")
	return nil
}

func controls(form *html.Node) url.Values {
	values := url.Values{}
	for n := range form.Descendants() {
		name := attribute(n, "name")
		switch {
		case n.Type != html.ElementNode || name == "":
		case n.Data == "textarea" && n.FirstChild != nil:
			values.Add(name, strings.ReplaceAll(n.FirstChild.Data, "\n", "\r\n")) // as browsers do
		case n.Data == "textarea":
			values.Add(name, "")
		case n.Data == "select":
			values.Add(name, chosen(n))
		case n.Data == "input" && attribute(n, "type") == "checkbox":
			if has(n, "checked") {
				values.Add(name, "on")
			}
		case n.Data == "input":
			values.Add(name, attribute(n, "value"))
		}
	}
	return values
}

// chosen returns the value of the option that is selected, or of the first.
func chosen(list *html.Node) string {
	first, found := "", false
	for o := range list.Descendants() {
		switch {
		case o.Data != "option":
		case has(o, "selected"):
			return attribute(o, "value")
		case !found:
			first, found = attribute(o, "value"), true
		}
	}
	return first
}

func has(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
