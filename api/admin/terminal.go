package admin

import "time"

// Paths of the sign-in of a command line. They are the dashboard's.
const (
	PathTerminal       = "/sign-in/terminal"
	PathTerminalDevice = "/sign-in/terminal/device"
	PathTerminalToken  = "/sign-in/terminal/token"
	PathTerminalEnd    = "/sign-in/terminal/end"
)

// SessionPrefix begins the tokens of command lines that are signed in.
const SessionPrefix = "mgses_"

// A DeviceRequest begins the sign-in of a command line by a code that a person types into a browser (as in RFC 8628).
type DeviceRequest struct {
	// Challenge is the SHA-256 of a verifier, as PKCE has it with S256.
	Challenge string `json:"challenge"`
}

// A Device is a sign-in that waits for a person.
type Device struct {
	DeviceCode string `json:"device_code"`
	UserCode   string `json:"user_code"`
	URL        string `json:"url"`
	ExpiresIn  int64  `json:"expires_in"` // seconds
	Interval   int64  `json:"interval"`   // seconds between two questions
}

// A GrantRequest redeems a code.
type GrantRequest struct {
	Code     string `json:"code"`
	Verifier string `json:"verifier"`
}

// A TerminalSession is a command line that is signed in. While nobody has answered, Pending is true and nothing else
// is set.
type TerminalSession struct {
	Pending   bool      `json:"pending"`
	Token     string    `json:"token,omitempty"`
	Account   string    `json:"account,omitempty"`
	Role      string    `json:"role,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}
