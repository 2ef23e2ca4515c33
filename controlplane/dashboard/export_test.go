package dashboard

import "github.com/modelgate/modelgate/controlplane/admin"

// A Route is a page for those who are signed in, as the table of them has it.
type Route struct {
	Pattern string
	Scope   admin.Scope
}

// Routes returns the table.
func Routes() []Route {
	var all []Route
	for _, r := range signedIn() {
		all = append(all, Route{r.pattern, r.scope})
	}
	return all
}

// The functions that are tested by themselves.
var (
	OwnPath     = ownPath
	Network     = network
	Dollars     = dollars
	ShortNumber = shortNumber
	Number      = number
	NewThrottle = newThrottle

	ReadProvider   = readProvider
	CredentialText = credentialText
)

// Take and GiveBack are those of a throttle.
var (
	Take     = (*throttle).take
	GiveBack = (*throttle).giveBack
)
