package admin

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/configstore"
)

// keyWait is how long a change of keys is waited for, where the request does not say: whoever has made a key uses it next.
const keyWait = 10 * time.Second

// waitOf reads how long a request is to wait until the data plane has taken its change. It is false where it does not say.
func waitOf(r *http.Request) (wait time.Duration, said bool, err error) {
	values := r.URL.Query()["wait"]
	if len(values) == 0 {
		return 0, false, nil
	}
	n, err := strconv.Atoi(values[0])
	if err != nil || len(values) > 1 || n < 0 || n > int(adminapi.MaxWait/time.Second) {
		return 0, true, openai.BadRequest("wait", "invalid_value", "The parameter wait must be a number of seconds between 0 and %d, given once.", int(adminapi.MaxWait/time.Second))
	}
	return time.Duration(n) * time.Second, true, nil
}

// await waits until the data plane has taken what was done, and says in a header who has not in time. What does not concern the
// data plane is not waited for.
func (s *server) await(w http.ResponseWriter, r *http.Request, done *plan) error {
	wait, said, err := waitOf(r)
	if err != nil {
		return err
	}
	if !said && slices.ContainsFunc(done.writes, func(c configstore.Change) bool { return c.Kind.Name == keyKind().Name }) {
		wait = keyWait
	}
	if wait == 0 || s.config.Await == nil || done.revision == 0 || !slices.ContainsFunc(done.writes, travels) {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	if missing := s.config.Await(ctx, done.revision); len(missing) > 0 {
		w.Header().Set(adminapi.HeaderPending, strings.Join(missing, ", "))
	}
	return nil
}

// travels reports whether a change concerns the data plane.
func travels(c configstore.Change) bool {
	switch c.Kind.New().(type) {
	case *configv1.Account, *configv1.AdminToken:
		return false
	}
	return true
}
