package dashboard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestANewProviderIsTestedBeforeItIsAdded(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	there := func() (*configv1.Provider, bool) {
		item, err := b.api.Get(t.Context(), configv1.KindOf((*configv1.Provider)(nil)), "mine")
		p, _ := item.Object.(*configv1.Provider)
		return p, err == nil
	}
	require.Contains(t, w.get("/new/provider").body, `href="/new/provider?vendor=openai"`)
	shown := w.get("/new/provider?vendor=openai&model=gpt-9").body
	require.Contains(t, shown, "gpt-9</textarea>")
	require.NotContains(t, shown, `name="region"`, "the vendor does not read it")
	require.Contains(t, w.get("/new/provider?vendor=bedrock").body, `name="region"`)

	const secret = "sk-very-secret"
	form := []string{"name", "mine", "vendor", "openai", "credential_source", "value", "credential", secret,
		"models", "a", "listed", "b", "allow_unlisted_models", "on", "action"}
	tested, answer := "", adminapi.ProviderTest{Message: "It says: no such key.", Status: 401}
	b.plane.test = func(p *configv1.Provider) adminapi.ProviderTest {
		require.NotEmpty(t, p.GetCredential().GetSealed(), "it is sealed as if it was stored")
		tested = p.GetName()
		return answer
	}
	for _, action := range []string{"test", "add"} {
		p := w.post("/providers", append(form, action)...)
		require.Equal(t, 200, p.status, text(p.body))
		require.Contains(t, text(p.body), "It says: no such key.")
		require.Contains(t, p.body, `value="anyway"`)
		require.NotContains(t, p.body, secret)
		require.NotContains(t, p.body, `value="add"`)
		require.Equal(t, "mine", tested)
		_, found := there()
		require.False(t, found, "a test that failed adds nothing")
	}
	answer = adminapi.ProviderTest{OK: true, Message: "It answers.", Models: 2, ModelNames: []string{"a", "<b>"}}
	p := w.post("/providers", append(form, "test")...)
	require.Contains(t, p.body, `name="listed" value="&lt;b&gt;"`)
	require.NotContains(t, p.body, `name="listed" value="a"`, "it is named already")
	require.NotContains(t, p.body, secret)
	_, found := there()
	require.False(t, found)
	require.Equal(t, 303, w.post("/providers", append(form, "add")...).status)
	stored, _ := there()
	require.Equal(t, []string{"a", "b"}, stored.GetModels())
	require.True(t, stored.AllowsUnlisted())

	tested = ""
	form[1] = "other"
	require.Equal(t, 303, w.post("/providers", append(form, "anyway")...).status)
	require.Empty(t, tested, "the person wants it all the same")
	form[1] = "mine"
	again := w.post("/providers", append(form, "test")...)
	require.Equal(t, 422, again.status)
	require.Contains(t, again.body, `aria-invalid="true" aria-describedby="fault-name"`)
	require.Regexp(t, `id="fault-name">[^<]*already exists`, again.body)
}
