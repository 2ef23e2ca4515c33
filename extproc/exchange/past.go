package exchange

import (
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/internal/limit"
)

// directory returns what is configured of keys, tenants and limits.
func (c *Config) directory() access.Directory {
	return access.Directory{Hasher: c.Hasher, Keyring: c.Keyring, Organizations: c.Organizations, Projects: c.Projects, RateLimits: c.RateLimits}
}

// LimitsUsers reports whether there are limits by the users whom requests name.
func (c *Config) LimitsUsers() bool {
	d := c.directory()
	return d.LimitsUsers()
}

// Past is access.Directory.Past.
func (c *Config) Past(p *ledgerv1.Past) []limit.Past {
	d := c.directory()
	return d.Past(p)
}
