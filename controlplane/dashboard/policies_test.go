package dashboard_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// policyFields are what the form of a policy with two rules and an empty row sends.
func policyFields(action, name, deny string) []string {
	return []string{"action", action, "name", name, "organization", "acme", "project", "", "key", "", "since", "7d",
		"rule_name", "models", "rule_effect", "deny", "rule_mode", "enforce", "rule_says", "Ask us.",
		"rule_expression", deny,
		"rule_name", "cheap", "rule_effect", "use_model", "rule_mode", "observe", "rule_says", "small",
		"rule_expression", " size < 2000\n&& stream ",
		"rule_name", "", "rule_effect", "deny", "rule_mode", "enforce", "rule_says", "", "rule_expression", ""}
}

func (b *bench) policy(t *testing.T, name string) *configv1.Policy {
	item, err := b.api.Get(t.Context(), configv1.KindOf((*configv1.Policy)(nil)), name)
	require.NoError(t, err)
	return item.Object.(*configv1.Policy)
}

func TestTheFormOfAPolicySaysWhatIsWrongBesideTheRule(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	for _, action := range []string{"save", "try"} {
		p := w.post("/policies", policyFields(action, "office", "size")...)
		require.Equal(t, 422, p.status)
		require.Contains(t, p.body, `aria-describedby="rule-problem-0">size</textarea>`)
		require.Contains(t, p.body, `<div id="rule-problem-0"><p class="problem">deny must be an expression in CEL: must be true or false</p></div>`)
		require.NotContains(t, p.body, "rule-problem-1")
		require.Contains(t, p.body, "&amp;&amp; stream", "what was written is still there")
		require.Contains(t, p.body, `<option value="7d" selected>`)
	}
	p := w.post("/policies", policyFields("save", "", "stream")...)
	require.Equal(t, 422, p.status)
	require.Contains(t, text(p.body), "name")
	require.Equal(t, 422, w.post("/policies", "action", "save", "name", "none").status, "there are no rules")

	require.Equal(t, 303, w.post("/policies", policyFields("save", "office", "stream")...).status)
	want := &configv1.Policy{Name: "office", Organization: "acme", Rules: []*configv1.PolicyRule{
		{Name: "models", Deny: "stream", Message: "Ask us."},
		{Name: "cheap", When: "size < 2000\n&& stream", UseModel: "small", Observe: true}}}
	require.True(t, proto.Equal(want, b.policy(t, "office")), b.policy(t, "office"))
	require.Equal(t, 422, w.post("/policies", policyFields("save", "office", "stream")...).status, "there is one")
	p = w.get("/policies/office")
	require.Contains(t, p.body, `<option value="use_model" selected>`)
	require.Contains(t, p.body, `<option value="observe" selected>`)
	require.Contains(t, w.get("/policies").body, `<li>cheap: uses small (only observed)</li>`)
}

func TestAPolicyIsChangedAsItWasSeen(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	require.Equal(t, 303, w.post("/policies", policyFields("save", "office", "stream")...).status)
	item, err := b.api.Get(t.Context(), configv1.KindOf((*configv1.Policy)(nil)), "office")
	require.NoError(t, err)
	revision := []string{"revision", strconv.FormatInt(item.Status.Revision, 10), "disabled", "on"}
	changed := w.post("/policies/office", append(policyFields("save", "other", "size > 1"), revision...)...)
	require.Equal(t, 303, changed.status)
	p := b.policy(t, "office")
	require.Equal(t, "size > 1", p.GetRules()[0].GetDeny())
	require.True(t, p.GetDisabled())
	again := w.post("/policies/office", append(policyFields("save", "", "size > 2"), revision...)...)
	require.Equal(t, 422, again.status)
	require.Contains(t, text(again.body), "Another user changed this object")
	require.Contains(t, again.body, "size &gt; 2")
	require.Equal(t, "size > 1", b.policy(t, "office").GetRules()[0].GetDeny())
}

func TestADryRunOfAFormStoresNothing(t *testing.T) {
	b, _ := withRequests(t)
	w := b.owner(t)
	fields := policyFields("try", "office", `model == "m"`)
	fields[5] = "" // of everybody
	p := w.post("/policies", fields...)
	require.Equal(t, 200, p.status, text(p.body))
	require.Contains(t, text(p.body), "It would have refused 3 of 3 requests")
	require.Contains(t, p.body, `<a href="/requests/tried">tried</a>`)
	require.Contains(t, p.body, `name="rule_name" value="models"`, "the form is still there")
	require.Contains(t, w.get("/policies").body, "No policies yet")

	vera := b.person(t, w, "vera", "VIEWER")
	require.Equal(t, 403, vera.post("/policies", fields...).status)
}

// TestADryRunThatCannotBeMadeLosesNothing has no ledger.
func TestADryRunThatCannotBeMadeLosesNothing(t *testing.T) {
	b, l := withRequests(t)
	w := b.owner(t)
	require.NoError(t, l.Close())
	p := w.post("/policies", policyFields("try", "office", `model == "m"`)...)
	require.Equal(t, 503, p.status, text(p.body))
	require.Contains(t, p.body, `name="rule_name" value="models"`)
	require.Contains(t, p.body, `<h2>Dry run</h2><p class="problem">`)
}
