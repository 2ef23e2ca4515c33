package call

import (
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/contentcheck"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/policy"
	"github.com/modelgate/modelgate/internal/respcache"
)

// A Config is everything that decisions about exchanges depend on. It is immutable: a change of the configuration
// makes a new Config.
type Config struct {
	access.Directory
	routing.Table
	Routes   routing.Routes
	Rails    guard.Rails
	Policies policy.Policies
	Caches   respcache.Caches
	Checkers contentcheck.Checkers
	// StoresResponses means that the job service stores responses, for requests that need it.
	StoresResponses bool
}
