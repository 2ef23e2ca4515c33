package batches_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
)

// However a batch that its provider runs ends before its time, each line that the provider answers is charged once.
func TestWhatAProviderRanOfAStoppedBatchIsCharged(t *testing.T) {
	t.Parallel()
	four := func(line int, request []byte) *provider.BatchAnswer {
		if line > 4 {
			return nil
		}
		return answered(line, request)
	}
	cancel := func(w *world, id string) {
		require.Equal(t, http.StatusOK, w.call("POST", "/v1/batches/"+id+"/cancel", "").Code)
	}
	for name, tc := range map[string]struct {
		stop   func(w *world, id string)
		before func(v *vendor) // when it is stopped
		after  func(v *vendor) // when it is over here
		lines  int64
	}{
		"the provider stops in time": {cancel, func(v *vendor) { v.report.Over = true }, nil, 4},
		"its window is over":         {(*world).expire, func(v *vendor) { v.report.Over = true }, nil, 4},
		"the provider stops late": {cancel, func(v *vendor) { v.results = nothing },
			func(v *vendor) { v.results, v.report.Over = four, true }, 4},
		"the provider does not stop": {(*world).expire, func(v *vendor) { v.results = nothing },
			func(v *vendor) { v.results, v.report.Over = answered, true }, 10},
		"a part of the answers could be read": {cancel, func(v *vendor) { v.results, v.broken = answered, 1000 },
			func(v *vendor) { v.broken, v.report.Over = 0, true }, 10},
		"the provider is away": {cancel, func(v *vendor) { v.pollErr = errReset },
			func(v *vendor) { v.pollErr, v.report.Over = nil, true }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			w, v := nativeWorld(t)
			w.limits.Settle = time.Second
			v.results = four
			w.run(nil)
			id := w.create(requests(10))
			w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.polls > 0 })
			v.set(tc.before)
			tc.stop(w, id)
			input := w.over(id).Get("input_file_id").String()
			if tc.after != nil {
				require.True(t, w.used(input), "its answers are read beside its requests")
				v.set(tc.after)
			}
			w.eventually(func() bool { lines, tokens := w.ledger.sums(); return lines == tc.lines && tokens == 7*tc.lines })
			w.eventually(func() bool { return !w.used(input) })
			require.False(t, w.ledger.differ)
		})
	}
}

// nothing is what a provider says that has not run a line.
func nothing(int, []byte) *provider.BatchAnswer { return nil }

// used reports whether unfinished work uses a file.
func (w *world) used(file string) bool {
	w.t.Helper()
	t := w.store.Begin()
	t.Unused(file)
	return t.Commit(w.t.Context()) != nil
}
