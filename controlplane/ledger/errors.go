package ledger

import (
	"errors"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// Unavailable returns what the client is told of an error of the ledger's.
func Unavailable(err error) error {
	if _, ok := errors.AsType[*openai.Error](err); ok {
		return err
	}
	return httpapi.WithCause(openai.CodeLedgerUnavailable.New("The ledger is unreachable. Traffic continues, and usage is not lost."), err)
}

// ErrNone is the error of a control plane that has no ledger.
var ErrNone = errors.New("this control plane has no ledger")
