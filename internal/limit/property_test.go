package limit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/redistest"
)

// A model is an exact log of what was admitted. It knows when things happened only as well as the test does: between
// from and to.
type model struct {
	random *rand.Rand
	rules  []Rule
	log    map[string][]happened // by counter
	held   map[string]int64
	spent  map[string]map[int64]int64
	// slack is by how much the clock of the limiter may differ.
	slack time.Duration
	// admitted and refused are how many demands were.
	admitted, refused int
}

type happened struct {
	from, to time.Time
	amount   int64
}

type open struct {
	demand Demand
	at     []int // the entry of the log, of each rule
	r      Reservation
}

func newModel(seed uint64, windows []Window, slack time.Duration) *model {
	m := &model{
		random: rand.New(rand.NewPCG(seed, 1)), slack: slack,
		log: map[string][]happened{}, held: map[string]int64{}, spent: map[string]map[int64]int64{},
	}
	for i := range 2 + m.random.IntN(5) {
		r := Rule{Counter: fmt.Sprint("c", i), Limit: int64(m.random.IntN(40))}
		r.Window = windows[m.random.IntN(len(windows))]
		switch {
		case r.Window == Now:
			r.Measure, r.Limit = Concurrency, r.Limit/6
		case r.Window.calendar():
			r.Measure, r.Limit = Cost, r.Limit*20
		default:
			r.Measure = []Measure{Requests, Tokens, InputTokens, OutputTokens}[m.random.IntN(4)]
		}
		m.rules = append(m.rules, r)
		m.spent[r.Counter] = map[int64]int64{}
	}
	return m
}

func (m *model) demand() Demand {
	d := Demand{Amounts: m.amounts()}
	d.Amounts[Requests], d.Amounts[Concurrency] = 1, 1
	for _, r := range m.rules {
		if m.random.IntN(3) > 0 {
			d.Rules = append(d.Rules, r)
		}
	}
	return d
}

func (m *model) amounts() Amounts {
	var a Amounts
	for i := range a {
		a[i] = int64(m.random.IntN(8))
	}
	return a
}

// used returns what counts for a rule at the least and at the most, given that it is decided between two times.
func (m *model) used(r Rule, from, to time.Time) (least, most int64) {
	if r.Window.length() == 0 {
		n := m.held[r.Counter]
		if r.Window.calendar() {
			n += m.spent[r.Counter][r.Window.period(to)]
		}
		return n, n
	}
	for _, h := range m.log[r.Counter] {
		if h.from.After(to.Add(-r.Window.length() + m.slack)) {
			least += h.amount
		}
		if !h.to.Before(from.Add(-r.Window.length()*countedSlots/slotsPerWindow - m.slack)) {
			most += h.amount
		}
	}
	return least, most
}

// decide asks the limiter and checks its answer.
func (m *model) decide(t testing.TB, l Limiter) *open {
	d := m.demand()
	from := time.Now()
	got, err := l.Reserve(t.Context(), d)
	to := time.Now()
	require.NoError(t, err)
	may, must := true, true
	for i, r := range d.Rules {
		least, most := m.used(r, from, to)
		may = may && least+d.Amounts[r.Measure] <= r.Limit
		must = must && most+d.Amounts[r.Measure] <= r.Limit
		require.GreaterOrEqual(t, got.States[i].Remaining, int64(0))
		require.GreaterOrEqual(t, got.States[i].Reset, time.Duration(0))
		require.LessOrEqual(t, got.States[i].Reset, max(r.Window.length()*countedSlots/slotsPerWindow, 31*24*time.Hour))
	}
	if got.Reservation == nil {
		m.refused++
		require.False(t, must, "what fits by an exact log is refused")
		return nil
	}
	m.admitted++
	require.True(t, may, "more than the limit is admitted in a window")
	o := &open{demand: d, r: got.Reservation}
	for _, r := range d.Rules {
		o.at = append(o.at, len(m.log[r.Counter]))
		m.held[r.Counter] += d.Amounts[r.Measure]
		m.log[r.Counter] = append(m.log[r.Counter], happened{from, to, d.Amounts[r.Measure]})
	}
	return o
}

func (m *model) settle(o *open) {
	used := m.amounts()
	for i, r := range o.demand.Rules {
		reserved, log := o.demand.Amounts[r.Measure], m.log[r.Counter]
		m.held[r.Counter] -= reserved
		m.spent[r.Counter][r.Window.period(time.Now())] += used[r.Measure]
		if used[r.Measure] < reserved {
			log[o.at[i]].amount = used[r.Measure]
		} else {
			m.log[r.Counter] = append(log, happened{time.Now(), time.Now(), used[r.Measure] - reserved})
		}
	}
	o.r.Settle(used)
	if m.random.IntN(3) == 0 {
		o.r.Settle(m.amounts())
	}
}

// run plays a random history, in which up to pause passes between events.
func (m *model) run(t testing.TB, l Limiter, events int, pause time.Duration) {
	var running []*open
	for range events {
		if m.random.IntN(3) > 0 {
			<-time.After(time.Duration(m.random.Int64N(int64(pause))))
		}
		if len(running) > 0 && m.random.IntN(2) == 0 {
			i := m.random.IntN(len(running))
			m.settle(running[i])
			flushed(t, l)
			running = append(running[:i], running[i+1:]...)
		} else if o := m.decide(t, l); o != nil {
			running = append(running, o)
		}
	}
	for _, o := range running {
		m.settle(o)
	}
	flushed(t, l)
	sound(t, l)
	for _, r := range m.rules {
		if r.Window == Now {
			require.Equal(t, []int64{r.Limit}, remaining(t, l, r), "all is given back")
		}
	}
}

func TestMemoryAgreesWithAnExactLog(t *testing.T) {
	t.Parallel()
	all := []Window{Now, Second, Minute, Hour, Day, CalendarDay, CalendarMonth}
	var admitted, refused int
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			windows, pause := all, 3*time.Hour
			if seed%2 == 0 {
				w := all[1+seed/2%4]
				windows, pause = []Window{w, w, w, Now}, w.length()/8
			}
			m := newModel(seed, windows, 0)
			m.run(t, NewMemory(Options{}), 250, pause)
			admitted, refused = admitted+m.admitted, refused+m.refused
		})
	}
	t.Log(admitted, "admitted,", refused, "refused")
	require.Greater(t, min(admitted, refused), (admitted+refused)/10, "the test decides nothing")
}

func TestRedisAgreesWithAnExactLog(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			l := newRedis(t, server, RedisOptions{Prefix: fmt.Sprint("seed", seed)})
			m := newModel(seed, []Window{Now, Second, Second, Second, Minute, CalendarDay, CalendarMonth}, 2*time.Millisecond)
			m.run(t, l, 150, 30*time.Millisecond)
			require.NotZero(t, m.admitted)
		})
	}
}
