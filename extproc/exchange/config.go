package exchange

import (
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/routing"
)

// A Config is all that exchanges are decided by. It is immutable once exchanges have it: a change of configuration
// makes another.
type Config struct {
	access.Directory
	routing.Table
	Routes routing.Routes
}
