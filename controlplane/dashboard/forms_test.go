package dashboard_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestAFormOfTheSchemaSaysWhatIsWrongBesideTheField(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	for _, kind := range []string{"Guardrail", "ResponseCache", "Policy", "AlertRule", "AlertReceiver", "ApprovalRule"} {
		p := w.get("/form/" + kind + "?example=1")
		require.Equal(t, 200, p.status, kind)
		require.Contains(t, p.body, `value="`, kind)
		require.Contains(t, w.get("/new/object/"+kind).body, `href="/form/`+kind+`"`)
	}
	require.Equal(t, 404, w.get("/form/Key").status)
	w.get("/form/Guardrail")
	form := []string{"name", "pii", "window", "7", "rules[0].name", "a", "rules[0].mode", "MASK",
		"rules[0].data", "EMAIL", "rules[1].name", "", "rules[1].mode", ""}
	p := w.post("/form/Guardrail", form...)
	require.Equal(t, 422, p.status, text(p.body))
	require.Regexp(t, `name="window"[^>]* aria-invalid="true" aria-describedby="fault-window"`, p.body)
	require.Regexp(t, `id="fault-window">[^<]*32`, p.body)
	require.Regexp(t, `name="rules\[0\]\.name" value="a"`, p.body, "what was typed stays")
	form[3] = "64"
	require.Equal(t, 303, w.post("/form/Guardrail", form...).status)
	item, err := b.api.Get(t.Context(), configv1.KindOf((*configv1.Guardrail)(nil)), "pii")
	require.NoError(t, err)
	g, _ := item.Object.(*configv1.Guardrail)
	require.Len(t, g.GetRules(), 1, "an empty row is none")
	p = w.get("/form/Guardrail/pii")
	require.Contains(t, p.body, `name="rules[1].name"`, "there is an empty row")
	revision := regexp.MustCompile(`name="revision" value="(\d+)"`).FindStringSubmatch(p.body)[1]
	form = append(form[2:], "revision", revision, "disabled", "on")
	require.Equal(t, 303, w.post("/form/Guardrail/pii", form...).status)
	require.Equal(t, 422, w.post("/form/Guardrail/pii", form...).status, "it was changed")

	made := w.post("/accounts", "name", "eve", "role", "VIEWER", "password", goodPassword)
	require.Equal(t, 303, made.status, text(made.body))
	viewer := b.browser(t)
	require.Equal(t, 303, viewer.signIn("eve", goodPassword).status)
	require.NotContains(t, viewer.get("/form/Guardrail/pii").body, ">Save<")
	require.Equal(t, 403, viewer.post("/form/Guardrail/pii", form...).status)
}
