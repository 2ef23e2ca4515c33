package admin

import (
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/id"
)

// maxUser bounds the name of a user, in bytes.
const maxUser = 512

// eraseUser erases what is recorded of a user. The audit log says it first, so that there is no erasure without an
// entry, and does not name the user, who would be in it for as long as it is kept. Who asks again erases what has come
// since.
func (s *server) eraseUser(w http.ResponseWriter, r *http.Request) error {
	var asked adminapi.ErasureRequest
	if err := decodeBody(w, r, &asked); err != nil {
		return err
	}
	if asked.User == "" || len(asked.User) > maxUser {
		return openai.CodeInvalidValue.On("user", "The member user must be a text of 1 to %d bytes.", maxUser)
	}
	ctx := r.Context()
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	if dryRun {
		found, err := s.config.Ledger.UserData(ctx, asked.User)
		if err != nil {
			return ledger.Unavailable(err)
		}
		return httpapi.WriteJSON(w, http.StatusOK, adminapi.Erasure{UserData: found})
	}
	erasure := adminapi.Erasure{ID: id.New("era")}
	if err := s.note(ctx, "erase", "UserData", erasure.ID, ""); err != nil {
		return err
	}
	var bodies int64
	if s.config.Bodies != nil {
		if bodies, err = s.config.Bodies.Erase(ctx, ledger.BodiesQuery{User: asked.User}); err != nil {
			return bodiesError(err)
		}
	}
	erased, err := s.config.Ledger.EraseUser(ctx, asked.User)
	if err != nil {
		return ledger.Unavailable(err)
	}
	erasure.UserData = erased
	erasure.Bodies = bodies
	return httpapi.WriteJSON(w, http.StatusOK, erasure)
}
