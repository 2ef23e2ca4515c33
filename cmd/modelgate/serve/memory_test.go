package serve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/doctor"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/memlimit"
	"github.com/modelgate/modelgate/internal/proc"
)

func TestReadyzSaysThatLoadIsShedAndStaysReady(t *testing.T) {
	memory, bytes := memlimit.New(1<<10), inflight.New(1<<20, 1<<20) // a process takes more than a KiB
	server := httptest.NewServer(proc.ProbesHandler(func() error { return nil }, proc.NoteOfMemory(memory),
		proc.NoteOfBodies(bytes)))
	t.Cleanup(server.Close)
	get := func() []string {
		r, err := http.Get(server.URL + "/readyz")
		require.NoError(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		ready, says := adminapi.Readyz(r.StatusCode, text)
		require.Equal(t, adminapi.HealthOK, ready)
		return says
	}
	require.Empty(t, get())
	var first, second inflight.Hold
	require.NoError(t, first.Grow(bytes, "a", 1<<20))
	require.ErrorIs(t, second.Grow(bytes, "b", 1<<20), inflight.ErrTotal)
	says := get()
	require.Len(t, says, 1)
	require.Contains(t, says[0], adminapi.SaysWarning+adminapi.SaysBodies+"a body found no room")

	go func() { _ = memory.Run(t.Context()) }() // it ends with the test
	require.Eventually(t, memory.Shedding, 10*time.Second, 10*time.Millisecond)
	says = get()
	require.Len(t, says, 2)
	require.Contains(t, says[0], adminapi.SaysError+adminapi.SaysShort+"more than 80 %")
	found := doctor.Besides(says)
	require.Equal(t, doctor.Error, found[0].Severity)
	require.Contains(t, found[0].Mend, "more memory")
	require.Contains(t, found[1].Mend, "--body-bytes")
}
