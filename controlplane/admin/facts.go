package admin

import (
	"context"

	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/config"
)

// Facts returns what gathers the facts by which the API decides what needs attention, for others who decide by them.
func Facts(c Config) func(context.Context) (attention.Facts, error) {
	return (&server{config: c, changes: config.New(c.service())}).facts
}
