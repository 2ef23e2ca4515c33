package forms_test

import (
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
)

// sent returns what a browser sends of a form as it was shown.
func sent(fields []forms.Field, into url.Values) url.Values {
	for _, f := range fields {
		switch {
		case f.Kind == "check" || f.Kind == "group" && f.Path[len(f.Path)-1] != ']':
			if f.Set {
				into.Set(f.Path, "on")
			}
		case f.Kind != "group" && f.Kind != "rows":
			into.Set(f.Path, f.Value)
		}
		sent(f.Fields, into)
	}
	return into
}

func TestAFormOfTheSchemaThatIsSentAsItWasShownChangesNothing(t *testing.T) {
	for _, o := range []configv1.Object{
		&configv1.Guardrail{Name: "g", Models: []string{"a, b", "c"}, Window: 64, When: "size > 1\n&& stream",
			Rules: []*configv1.GuardRule{{Name: "r", Mode: configv1.GuardMode_MASK, In: []configv1.GuardSide{
				configv1.GuardSide_ANSWERS}, Data: []configv1.SensitiveData{configv1.SensitiveData_EMAIL,
				configv1.SensitiveData_IBAN}, Patterns: []string{"a{1,2}", "x=y"}},
				{Name: "s", Mode: configv1.GuardMode_BLOCK, MaxCharacters: 1 << 40, Threshold: 0.25, PassOnFailure: true}}},
		&configv1.ResponseCache{Name: "c", Ttl: durationpb.New(90*time.Second + 500*time.Millisecond), MaxTemperature: 0.5,
			Similar: &configv1.SimilarAnswers{Url: "https://e.example", Model: "m"}, Credential: &configv1.Credential{
				Source: &configv1.Credential_Value{Value: "[redacted]"}}},
		&configv1.AlertRule{Name: "a", Condition: configv1.AlertCondition_BUDGET_SPENT, Threshold: proto.Float64(0),
			Receivers: []string{"x", "y"}, Disabled: true},
		&configv1.AlertReceiver{Name: "r", Slack: &configv1.AlertSlack{}, Credential: &configv1.Credential{
			Source: &configv1.Credential_Vault{Vault: &configv1.VaultSecret{Path: "p", Field: "f"}}}},
		&configv1.ApprovalRule{Name: "r", BudgetUsdMonth: "10", Keys: true, Approvers: configv1.Approvers_TENANT_ADMINS},
		&configv1.Policy{Name: "p", Rules: []*configv1.PolicyRule{{Name: "r", Deny: "true"}}},
	} {
		t.Run(configv1.Label(o), func(t *testing.T) {
			form := sent(forms.Fields(o), url.Values{})
			again := proto.Clone(o).(configv1.Object)
			require.NoError(t, forms.Fill(form, again))
			require.True(t, proto.Equal(o, again), "%s\n%s", protojson.Format(o), protojson.Format(again))
			fresh := configv1.KindOf(o).New()
			forms.SetName(fresh, o.GetName())
			require.NoError(t, forms.Fill(form, fresh))
			require.True(t, proto.Equal(o, fresh), "%s\n%s", protojson.Format(o), protojson.Format(fresh))
		})
	}
}

func TestAFieldSaysWhatIsWrongWithIt(t *testing.T) {
	for name, tc := range map[string]struct {
		object configv1.Object
		form   url.Values
		param  string
	}{
		"number":       {&configv1.Guardrail{}, url.Values{"window": {"many"}}, "window"},
		"large number": {&configv1.Guardrail{}, url.Values{"window": {"5000000000"}}, "window"},
		"enumeration":  {&configv1.Guardrail{}, url.Values{"rules[0].data": {"EMAIL\nNOTHING"}}, "rules[0].data"},
		"duration":     {&configv1.ResponseCache{}, url.Values{"ttl": {"long"}}, "ttl"},
		"decimal":      {&configv1.AlertRule{}, url.Values{"threshold": {"x"}}, "threshold"},
		"two credential": {&configv1.ResponseCache{}, url.Values{"credential.env": {"A"}, "credential.file": {"b"}},
			"credential"},
	} {
		err := forms.Fill(tc.form, tc.object)
		e, ok := errors.AsType[*openai.Error](err)
		require.True(t, ok, name)
		require.Equal(t, tc.param, e.Param, name)
		require.NotEmpty(t, forms.FaultsOf(err).Of(tc.param).Text, name)
	}
	empty := &configv1.Guardrail{Rules: []*configv1.GuardRule{{Name: "old"}}}
	require.NoError(t, forms.Fill(url.Values{"rules[0].name": {" "}, "rules[1].name": {"new"},
		"rules[9999].name": {"far"}}, empty))
	require.Len(t, empty.GetRules(), 1)
	require.Equal(t, "new", empty.GetRules()[0].GetName())
}

func TestATypedSecretIsNotShownAgain(t *testing.T) {
	typed := &configv1.ResponseCache{Credential: &configv1.Credential{
		Source: &configv1.Credential_Value{Value: "sk-secret"}}}
	require.NotContains(t, fmt.Sprint(forms.Fields(typed)), "sk-secret")
}

func TestFaultsOfSeveralFields(t *testing.T) {
	f := forms.FaultsOf(openai.CodeInvalidObject.On("rules[0].name", "%s",
		"Guardrail g: rules[0].name: is missing\nGuardrail g: window: must be at least 32"))
	require.Equal(t, forms.Fault{ID: "fault-window", Text: "must be at least 32"}, f.Of("window"))
	require.Equal(t, forms.Fault{ID: "fault-rules-0-name", Text: "is missing"}, f.Of("rules[0].name"))
	require.Equal(t, "rules[0].name: is missing", f.Of("rules").Text)
	require.Empty(t, f.Exactly("rules").Text)
	require.Empty(t, f.Of("rule").Text)
	require.EqualValues(t, ` aria-invalid="true" aria-describedby="fault-window"`, f.Attributes("window"))
	require.Empty(t, f.Attributes("when"))
	require.Nil(t, forms.FaultsOf(errors.New("other")))
}
