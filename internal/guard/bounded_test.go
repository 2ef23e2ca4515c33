package guard_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/request"
)

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func emails(t *testing.T) *guard.Set {
	rails, err := guard.Compile([]*configv1.Guardrail{{Name: "g", Rules: []*configv1.GuardRule{{Name: "mail",
		Mode: configv1.GuardMode_MASK, Data: []configv1.SensitiveData{configv1.SensitiveData_EMAIL}}}}})
	require.NoError(t, err)
	return rails.For(&request.Subject{}, "m", nil)
}

// TestBracketsInARequestTakeLittleMemory: what may look like a placeholder is kept, and brackets within brackets are
// not kept once for each.
func TestBracketsInARequestTakeLittleMemory(t *testing.T) {
	var text strings.Builder
	for i := range 1_000 {
		fmt.Fprintf(&text, "%s%08d]", strings.Repeat("[", 280), i)
	}
	body := []byte(`{"messages":[{"content":"a@b.example ` + text.String() + `"}]}`)
	set := emails(t)
	bytes := allocated(func() {
		r, err := set.Request(context.Background(), guard.NewWork(), body)
		require.NoError(t, err)
		require.Contains(t, string(r.Body), "[EMAIL_1]")
	})
	require.Less(t, bytes, uint64(20*len(body)))
	r, err := set.Request(context.Background(), guard.NewWork(), []byte(`{"messages":[{"content":"[[EMAIL_1] a@b.example"}]}`))
	require.NoError(t, err)
	require.Contains(t, string(r.Body), "[[EMAIL_1] [EMAIL_2]", "a placeholder of the client's stays")
}

// TestFindingsAreWork: a request that has very many findings is refused.
func TestFindingsAreWork(t *testing.T) {
	var text strings.Builder
	for i := range 600_000 {
		fmt.Fprintf(&text, "%x@b.co ", i)
	}
	body := []byte(`{"messages":[{"content":"` + text.String() + `"}]}`)
	_, err := emails(t).Request(context.Background(), guard.NewWork(), body)
	_, is := errors.AsType[*guard.Unjudged](err)
	require.True(t, is, "%v", err)
}
