package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/configstore"
)

// What etcd says is told as what it is, and only what did not answer as away. (report 13)
func TestErrorsOfTheStoreAreToldAsWhatTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"full":                {rpctypes.ErrNoSpace, http.StatusInsufficientStorage, string(openai.CodeStoreFull)},
		"too large for etcd":  {rpctypes.ErrRequestTooLarge, http.StatusRequestEntityTooLarge, "object_too_large"},
		"too large an object": {configstore.ErrTooLarge, http.StatusRequestEntityTooLarge, "object_too_large"},
		"too many operations": {rpctypes.ErrTooManyOps, http.StatusBadGateway, "store_refused"},
		"one key twice":       {rpctypes.ErrDuplicateKey, http.StatusBadGateway, "store_refused"},
		"no permission":       {rpctypes.ErrPermissionDenied, http.StatusBadGateway, "store_refused"},
		"no user":             {rpctypes.ErrInvalidAuthToken, http.StatusBadGateway, "store_refused"},
		"no leader":           {rpctypes.ErrNoLeader, http.StatusServiceUnavailable, "store_unavailable"},
		"out of time":         {context.DeadlineExceeded, http.StatusServiceUnavailable, "store_unavailable"},
		"changed by others":   {configstore.ErrConflict, http.StatusConflict, "conflict"},
		"decided and not made": {fmt.Errorf("%w: %w", configstore.ErrUnfinished, rpctypes.ErrNoSpace),
			http.StatusServiceUnavailable, "apply_unfinished"},
		"a restore": {configstore.ErrRestoring, http.StatusServiceUnavailable, "store_restoring"},
	} {
		t.Run(name, func(t *testing.T) {
			told, ok := errors.AsType[*openai.Error](clientError(fmt.Errorf("apply 3 changes: %w", c.err)))
			require.True(t, ok)
			require.Equal(t, c.status, told.Status)
			require.Equal(t, c.code, string(told.Code))
		})
	}
}
