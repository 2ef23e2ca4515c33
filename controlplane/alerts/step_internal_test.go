package alerts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A moment is an evaluation: after how long, whether the condition holds, and what is told.
type moment struct {
	after time.Duration
	holds bool
	told  string
}

func TestAnAlertFiresOnceAndClearsOnce(t *testing.T) {
	const fired, cleared = adminapi.AlertFired, adminapi.AlertCleared
	for name, moments := range map[string][]moment{
		"it fires when the condition has held for a minute, and once": {
			{0, true, ""}, {59 * time.Second, true, ""}, {60 * time.Second, true, fired}, {90 * time.Second, true, ""}},
		"a short condition is told to nobody": {
			{0, true, ""}, {30 * time.Second, false, ""}, {60 * time.Second, true, ""}, {90 * time.Second, true, ""},
			{2 * time.Minute, true, fired}},
		"it clears when the condition has not held for five minutes": {
			{0, true, ""}, {time.Minute, true, fired}, {2 * time.Minute, false, ""}, {6 * time.Minute, false, ""},
			{7 * time.Minute, false, cleared}, {8 * time.Minute, false, ""}},
		"what comes and goes is one alert": {
			{0, true, ""}, {time.Minute, true, fired}, {2 * time.Minute, false, ""}, {3 * time.Minute, true, ""},
			{4 * time.Minute, false, ""}, {8 * time.Minute, false, ""}, {9 * time.Minute, false, cleared}},
	} {
		t.Run(name, func(t *testing.T) {
			rule := &configv1.AlertRule{Name: "r", Condition: configv1.AlertCondition_PROVIDER_FAILING,
				Receivers: []string{"ops"}}
			known, begin := map[string]adminapi.Alert{}, time.Unix(1_800_000_000, 0).UTC()
			for i, m := range moments {
				j := judged{rule: rule}
				if m.holds {
					j.found = []finding{{"provider/a", "It fails.", 0}}
				}
				var told string
				for _, c := range step(begin.Add(m.after), []judged{j}, known) {
					delete(known, c.id)
					if c.after != nil {
						known[c.id] = *c.after
					}
					if c.event != nil {
						told = c.event.Type
						require.Equal(t, "ops", c.event.Deliveries[0].Receiver)
					}
				}
				require.Equal(t, m.told, told, "moment %d", i)
			}
		})
	}
}

func TestWhatIsNotKnownChangesNothing(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	rule := &configv1.AlertRule{Name: "r", Condition: configv1.AlertCondition_BUDGET_SPENT,
		ClearAfter: durationpb.New(0)}
	firing := map[string]adminapi.Alert{idOf("r", "a"): {Rule: "r", Condition: "BUDGET_SPENT", Subject: "a",
		State: adminapi.AlertFiring, Since: now}}
	require.Empty(t, step(now, []judged{{rule: rule, unsure: true}}, firing))
	got := step(now, []judged{{rule: rule}}, firing)
	require.Len(t, got, 1)
	require.Equal(t, adminapi.AlertCleared, got[0].event.Type)
}

func TestTheAlertsOfARuleThatIsGoneEnd(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	firing := map[string]adminapi.Alert{
		idOf("r", "a"): {Rule: "r", Condition: "BUDGET_SPENT", Subject: "a", State: adminapi.AlertFiring, Since: now,
			Receivers: []string{"ops"}},
		idOf("r", "b"): {Rule: "r", Condition: "BUDGET_SPENT", Subject: "b", State: adminapi.AlertPending, Since: now},
	}
	other := &configv1.AlertRule{Name: "r", Condition: configv1.AlertCondition_BUDGET_FORECAST}
	disabled := &configv1.AlertRule{Name: "r", Condition: configv1.AlertCondition_BUDGET_SPENT, Disabled: true}
	for _, rules := range [][]judged{nil, {{rule: other}}, {{rule: disabled}}} {
		got := step(now, rules, firing)
		require.Len(t, got, 2)
		told := 0
		for _, c := range got {
			require.Nil(t, c.after)
			if c.event != nil {
				told++
				require.Equal(t, "ops", c.event.Deliveries[0].Receiver)
			}
		}
		require.Equal(t, 1, told, "nobody had been told of the pending one")
	}
}

func TestManySubjectsAreBounded(t *testing.T) {
	var all []finding
	for i := range 3 * most {
		all = append(all, finding{string(rune('A' + i)), "x", 0})
	}
	got := bounded(all)
	require.Len(t, got, most+1)
	require.Equal(t, "100 more have the condition.", got[most].message)
}

// The message has the figures of now. When it was worst is kept apart.
func TestAnAlertSaysHowItIsAndHowItWasAtItsWorst(t *testing.T) {
	rule := &configv1.AlertRule{Name: "r", Condition: configv1.AlertCondition_ERROR_RATE, For: durationpb.New(0),
		ClearAfter: durationpb.New(0)}
	known, begin := map[string]adminapi.Alert{}, time.Unix(1_800_000_000, 0).UTC()
	at := func(minute int, found ...finding) (said string) {
		for _, c := range step(begin.Add(time.Duration(minute)*time.Minute), []judged{{rule: rule, found: found}}, known) {
			delete(known, c.id)
			if c.after != nil {
				known[c.id] = *c.after
			}
			if c.event != nil {
				said = c.event.Message
			}
		}
		return said
	}
	require.Equal(t, "10 %", at(0, finding{"all", "10 %", 10}))
	require.Empty(t, at(1, finding{"all", "90 %", 90}), "nobody is told again")
	require.Empty(t, at(2, finding{"all", "20 %", 20}))
	same := []judged{{rule: rule, found: []finding{{"all", "20 %", 20}}}}
	require.Empty(t, step(begin.Add(3*time.Minute), same, known), "nothing is written if nothing is new")
	a := known[idOf("r", "all")]
	require.Equal(t, []any{"20 %", "90 %", 90.0}, []any{a.Message, a.Peak, a.PeakValue})
	require.Equal(t, begin.Add(time.Minute), *a.PeakAt)
	require.Contains(t, at(4), "At its worst: 90 %")
}
