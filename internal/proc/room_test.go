package proc

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

func TestReadyzSaysThatEtcdFillsAndStaysReady(t *testing.T) {
	etcd := etcdtest.WithQuota(t, 4<<20).Client(t)
	room := etcdspace.New(etcd, zap.NewNop())
	var broken error
	handler := ProbesHandler(func() error { return broken }, NoteOf(room))
	get := func() (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Code, w.Body.String()
	}
	status, text := get()
	require.Equal(t, 200, status)
	require.Equal(t, "ready\n", text)

	var err error
	for i := 0; err == nil && i < 1000; i++ {
		_, err = etcd.Put(t.Context(), fmt.Sprint("/", i), strings.Repeat("x", 100_000))
	}
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)
	_, err = room.Look(t.Context())
	require.NoError(t, err)
	status, text = get()
	require.Equal(t, 200, status)
	ready, says := adminapi.Readyz(status, []byte(text))
	require.Equal(t, adminapi.HealthOK, ready)
	require.Len(t, says, 1)
	require.Contains(t, says[0], adminapi.SaysError+"etcd is full (NOSPACE)")

	broken = errors.New("not ready: starting")
	status, text = get()
	require.Equal(t, 503, status)
	ready, says = adminapi.Readyz(status, []byte(text))
	require.Equal(t, "not ready: starting", ready)
	require.Len(t, says, 1)
}
