package api

import (
	"context"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// deliveries answers with what is on its way.
func (statusHandlers) deliveries(context.Context) (adminapi.Deliveries, error) {
	return adminapi.Deliveries{Cargo: []string{"anvil"}}, nil
}
