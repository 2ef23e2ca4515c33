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
	"github.com/modelgate/modelgate/controlplane/config"
)

// keyWait is how long a change of keys is waited for, where the request does not say: whoever has made a key uses it
// next.
const keyWait = 10 * time.Second

// waitOf reads how long a request is to wait until the data plane has taken its change. It is false where it does not
// say.
func waitOf(r *http.Request) (wait time.Duration, said bool, err error) {
	values := r.URL.Query()["wait"]
	if len(values) == 0 {
		return 0, false, nil
	}
	n, err := strconv.Atoi(values[0])
	if err != nil || len(values) > 1 || n < 0 || n > int(adminapi.MaxWait/time.Second) {
		return 0, true, openai.CodeInvalidValue.On("wait",
			"The parameter wait must be a number of seconds between 0 and %d. It may be given only once.", int(adminapi.MaxWait/time.Second))
	}
	return time.Duration(n) * time.Second, true, nil
}

// await waits until the data plane has taken what was done, and says in a header who has not in time. What does not
// concern the data plane is not waited for.
func (s *server) await(w http.ResponseWriter, r *http.Request, done *config.Plan) error {
	wait, said, err := waitOf(r)
	if err != nil {
		return err
	}
	if !said && slices.ContainsFunc(done.Changes,
		func(c adminapi.Change) bool { return c.Kind == configv1.KeyKind().Name }) {
		wait = keyWait
	}
	revision := done.Newest()
	if wait == 0 || s.config.Await == nil || revision == 0 || !slices.ContainsFunc(done.Changes, travels) {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	if missing := s.config.Await(ctx, revision); len(missing) > 0 {
		w.Header().Set(adminapi.HeaderPending, strings.Join(missing, ", "))
	}
	return nil
}

// travels reports whether a change concerns the data plane.
func travels(c adminapi.Change) bool {
	return c.Kind != configv1.KindOf((*configv1.Account)(nil)).Name &&
		c.Kind != configv1.KindOf((*configv1.AdminToken)(nil)).Name
}
