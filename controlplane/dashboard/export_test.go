package dashboard

import (
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// A Route is a page for those who are signed in, as the table of them has it.
type Route struct {
	Pattern string
	Scope   authz.Scope
}

// Routes returns the table.
func Routes() []Route {
	var all []Route
	for pattern := range ownPages() {
		all = append(all, Route{pattern, ""})
	}
	for _, r := range page.NewSite(page.Config{}, sections(Config{})).Routes() {
		all = append(all, Route{r.Pattern, r.Scope})
	}
	return all
}

// The functions that are tested by themselves.
var (
	OwnPath     = ownPath
	Network     = network
	NewThrottle = newThrottle
)

// Take and GiveBack are those of a throttle.
var (
	Take     = (*throttle).take
	GiveBack = (*throttle).giveBack
)
