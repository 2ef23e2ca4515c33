package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/secret"
)

// claimedTimeout is how long etcd, which may be starting too, may take to say whether a configuration is there, of
// which the root secret would have to be.
const claimedTimeout = 15 * time.Second

// LoadRoot reads the root secret. It makes one only if no configuration was written under another: a wrong one that
// lies where the right one has to be would only hide that it is missing.
func LoadRoot(ctx context.Context, path string, etcd *clientv3.Client) (*secret.Root, error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return secret.LoadRoot(path)
	}
	limited, cancel := context.WithTimeout(ctx, claimedTimeout)
	defer cancel()
	claimed, err := configstore.New(etcd, validStored, zap.NewNop()).Claimed(limited)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil,
			fmt.Errorf(
				"secret file %s is missing, and is only created if etcd contains no configuration for another one: %w",
				path, err)
	case claimed:
		return nil,
			fmt.Errorf("secret file %s is missing, but the configuration in etcd depends on it: restore it from a copy. Without it, keys cannot be checked and sealed credentials cannot be opened", path)
	}
	return secret.LoadRoot(path)
}

// LoadAdminToken reads the token of the admin API, or makes one.
func LoadAdminToken(path string) (secret.Value, error) {
	token, err := secret.File(path, func() secret.Value { return secret.New(rand.Text()) })
	if err != nil {
		return token, fmt.Errorf("%w; or move it away, and a new token is created", err)
	}
	if strings.ContainsFunc(token.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return token,
			fmt.Errorf(
				"secret file %s contains bytes that a header cannot carry: restore it from a copy, or move it away, and a new token is created", path)
	}
	return token, nil
}
