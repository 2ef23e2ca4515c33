package dashboard_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	realledger "github.com/modelgate/modelgate/controlplane/ledger"
)

// withHistory returns a bench in which the models of the provider p were a and then b.
func withHistory(t *testing.T) (*bench, *browser) {
	t.Helper()
	l, err := realledger.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "ledger.db"), zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	b := newBenchOver(t, l)
	w := b.owner(t)
	save(t, w, "p", "a", "0")
	save(t, w, "p", "b", "0")
	return b, w
}

func save(t *testing.T, w *browser, name, model, revision string) {
	t.Helper()
	p := w.post("/objects/Provider/"+name, "action", "save", "revision", revision, "text", "kind: Provider\nname: "+name+
		"\nvendor: openai\ncredential:\n  value: sk-very-secret\nmodels: ["+model+"]\n")
	require.Equal(t, 303, p.status, text(p.body))
}

var rollbackLink = regexp.MustCompile(`href="(/rollback/Provider/p\?revision=\d+)"`)

var planField = regexp.MustCompile(`name="(revision|plan)" value="([^"]+)"`)

// fields returns what the form of a rollback holds.
func fields(p shown) (all []string) {
	for _, m := range planField.FindAllStringSubmatch(p.body, -1) {
		all = append(all, m[1], m[2])
	}
	return all
}

func TestAnObjectIsRolledBackFromItsHistory(t *testing.T) {
	b, w := withHistory(t)
	require.Contains(t, w.get("/providers/p").body, `href="/history/Provider/p"`)
	require.Contains(t, w.get("/objects/Provider/p").body, `href="/history/Provider/p"`)
	require.NotContains(t, w.get("/objects/Account/ada").body, `href="/history/`, "rights have no history")

	p := w.get("/history/Provider/p")
	require.Equal(t, 200, p.status)
	require.NotContains(t, p.body, "style=")
	require.NotContains(t, p.body, "sk-very-secret")
	for _, says := range []string{"ada", "updated", "created", "Show"} {
		require.Contains(t, text(p.body), says)
	}
	links := rollbackLink.FindAllStringSubmatch(p.body, -1)
	require.Len(t, links, 2)
	require.Contains(t, text(w.get(links[0][1]).body), "Nothing would change")

	asked := w.get(links[1][1])
	require.Equal(t, 200, asked.status)
	require.Contains(t, asked.body, `<span class="del">-- b</span><span class="add">&#43;- a</span>`)
	stored := func() string { return w.get("/objects/Provider/p").body }
	require.Contains(t, stored(), "- b", "a question changes nothing")
	asked = w.get(links[1][1])

	// Somebody is faster: what is done is what was shown, or it is shown again.
	save(t, w, "p", "c", "0")
	again := w.post("/rollback/Provider/p", fields(asked)...)
	require.Equal(t, 409, again.status)
	require.Contains(t, stored(), "- c")
	w.get(links[1][1])
	done := w.post("/rollback/Provider/p", fields(again)...)
	require.Equal(t, 303, done.status, text(done.body))
	require.Contains(t, text(w.get(done.location).body), "Rolled back")
	require.Contains(t, stored(), "- a")
	require.Len(t, rollbackLink.FindAllString(w.get("/history/Provider/p").body, -1), 4)

	vera := b.person(t, w, "vera", "VIEWER")
	p = vera.get("/history/Provider/p")
	require.Equal(t, 200, p.status)
	require.NotContains(t, p.body, `href="/rollback/`)
	require.Equal(t, 403, vera.get(links[1][1]).status)
	vera.get("/account")
	require.Equal(t, 403, vera.post("/rollback/Provider/p", fields(again)...).status)
	require.Contains(t, stored(), "- a")
}

func TestASaveIsUndoneFromItsMessage(t *testing.T) {
	b, w := withHistory(t)
	saved := w.post("/objects/Provider/p", "action", "save", "revision", "0", "text",
		"kind: Provider\nname: p\nvendor: openai\nmodels: [c]\n")
	require.Equal(t, 303, saved.status)
	p := w.get(saved.location)
	require.Contains(t, text(p.body), "By ada.")
	undo := regexp.MustCompile(`<a href="(/rollback/Provider/p\?revision=\d+)">Undo…</a>`).FindStringSubmatch(p.body)
	require.NotNil(t, undo, text(p.body))
	require.Contains(t, text(w.get(undo[1]).body), "+- b", "the way back is to what was there before")
	require.NotContains(t, w.get("/objects/Provider/p?done=saved").body, "Undo…", "without a change")

	save(t, w, "p", "c", "0")
	renewed := w.post("/objects/Provider/p", "action", "save", "revision", "0", "text",
		"kind: Provider\nname: p\nvendor: openai\ncredential:\n  value: sk-another\nmodels: [c]\n")
	require.Equal(t, 303, renewed.status)
	require.NotContains(t, w.get(renewed.location).body, "Undo…", "a rollback brings back no credential")

	made := w.post("/form/Guardrail", "name", "pii", "rules[0].name", "a", "rules[0].mode", "MASK", "rules[0].data",
		"EMAIL")
	require.Equal(t, 303, made.status, text(made.body))
	require.Contains(t, w.get(made.location).body, `<a href="/delete/Guardrail/pii">Undo…</a>`)

	eve := w.post("/accounts", "name", "eve", "role", "VIEWER", "password", goodPassword)
	require.Equal(t, 303, eve.status, text(eve.body))
	viewer := b.browser(t)
	require.Equal(t, 303, viewer.signIn("eve", goodPassword).status)
	require.NotContains(t, viewer.get(saved.location).body, "Undo…")
	require.Equal(t, 200, viewer.get("/?done=saved&undo=Nothing%2Fx").status)
}

func TestTheHistoryOfWhatIsGone(t *testing.T) {
	_, w := withHistory(t)
	w.get("/delete/Provider/p")
	require.Equal(t, 303, w.post("/delete/Provider/p").status)
	links := rollbackLink.FindAllStringSubmatch(w.get("/history/Provider/p").body, -1)
	require.Len(t, links, 3)
	asked := w.get(links[2][1])
	require.Contains(t, text(asked.body), "is created")
	require.Equal(t, 303, w.post("/rollback/Provider/p", fields(asked)...).status)
	require.Contains(t, w.get("/objects/Provider/p").body, "- a")

	require.Contains(t, text(w.get("/history/Provider/none").body), "No versions yet")
	require.Equal(t, 422, w.get("/rollback/Provider/p?revision=x").status)
	require.Equal(t, 404, w.get("/rollback/Provider/none?revision=1").status)
	require.Contains(t, text(w.get("/history/Account/ada").body), "rights that were taken away")
}

func TestTheAuditLogLeadsToTheHistory(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	b.ledger.audit = []adminapi.AuditEntry{{Action: "delete", Kind: "Model", Name: "team/fast"},
		{Action: "update", Kind: "Account", Name: "ada"}}
	p := w.get("/audit")
	require.Contains(t, p.body, `<a href="/history/Model/team/fast" title="team/fast">Model team/fast</a>`)
	require.NotContains(t, p.body, `href="/history/Account`)
	// Without a ledger there is no history, and the page says so.
	require.Contains(t, text(w.get("/history/Model/team/fast").body), "The history is unavailable")
}
