package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// TestThePastOfADay is what a process is told that begins at 12:30.
func TestThePastOfADay(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		began := func(ago, took time.Duration) func(*ledgerv1.Record) {
			return func(r *ledgerv1.Record) {
				r.Start, r.End = timestamppb.New(noon.Add(-ago)), timestamppb.New(noon.Add(-ago+took))
			}
		}
		user := func(r *ledgerv1.Record) { r.User = "u2" }
		keep(t, l,
			// together, but for the user
			rec("a", began(10*time.Minute, time.Second)), rec("b", began(10*time.Minute-time.Second, time.Second), user),
			rec("c", began(10*time.Minute, 5*time.Minute)), // counts when it ended
			rec("d", began(time.Minute, time.Second), func(r *ledgerv1.Record) { r.Model = "other" }),
			// at 7:30 and 7:40
			rec("e", began(5*time.Hour, time.Second)), rec("f", began(5*time.Hour-10*time.Minute, time.Second), user),
			rec("g", began(24*time.Hour+20*time.Minute, time.Second)), // in the hour in which the day begins
			rec("h", began(26*time.Hour, time.Second)),                // too long ago
			rec("i", began(0, time.Second)),                           // its own
			rec("k", began(time.Minute, time.Second), func(r *ledgerv1.Record) { // a part of a session is no request
				r.Model, r.Operation = "voice", "realtime/response"
			}),
			rec("l", began(5*time.Hour, time.Second), func(r *ledgerv1.Record) {
				r.Model, r.Operation = "voice", "realtime/response"
			}),
			rec("j", began(time.Minute, time.Second), func(r *ledgerv1.Record) { r.Batch, r.Requests = true, 50 }),
		)
		told := func(users bool) (all []string) {
			require.NoError(t, l.Past(t.Context(), noon, users, func(some []*ledgerv1.Past) error {
				for _, p := range some {
					require.Equal(t, "key_1 acme web openai", fmt.Sprint(p.GetKey(), " ", p.GetOrganization(), " ", p.GetProject(),
						" ", p.GetProvider()))
					all = append(all, fmt.Sprint(p.GetEnd().AsTime().Format("02 15:04 "), p.GetModel(), p.GetUser(), " ",
						p.GetRequests(), " ", p.GetInputTokens(), " ", p.GetOutputTokens()))
				}
				return nil
			}))
			slices.Sort(all)
			return all
		}
		require.Equal(t, []string{"09 13:00 gpt 1 100 10", "10 08:00 gpt 2 200 20", "10 08:00 voice 0 100 10",
			"10 12:21 gpt 2 200 20", "10 12:26 gpt 1 100 10", "10 12:30 other 1 100 10", "10 12:30 voice 0 100 10"},
			told(false))
		require.Equal(t, []string{"09 13:00 gptu1 1 100 10", "10 08:00 gptu1 1 100 10", "10 08:00 gptu2 1 100 10",
			"10 08:00 voiceu1 0 100 10",
			"10 12:21 gptu1 1 100 10", "10 12:21 gptu2 1 100 10",
			"10 12:26 gptu1 1 100 10", "10 12:30 otheru1 1 100 10", "10 12:30 voiceu1 0 100 10"}, told(true))
	})
}
