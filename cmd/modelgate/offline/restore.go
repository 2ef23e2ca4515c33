package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/controlplane/backup"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/secret"
)

// RestoreCmd is the command restore.
type RestoreCmd struct {
	File          string `arg:"" help:"The backup file, or - for standard input."`
	Pepper        string `required:"" placeholder:"FILE" help:"File of the root secret of the saved installation. The backup does not contain it."`
	Ledger        string `env:"MODELGATE_LEDGER" placeholder:"URL" help:"An empty ledger to restore into: sqlite:///path or postgres://... It may be of another kind than the saved one."`
	WithoutLedger bool   `help:"Do not restore the ledger."`

	Etcd cmdline.EtcdFlags `embed:"" prefix:"etcd-"`
}

// Help is shown below the flags' summary.
func (RestoreCmd) Help() string {
	return `etcd must contain no gateway, and the ledger must be empty. First stop the control planes and the job services. Envoys and ext_proc services
can continue, and get the restored configuration from the next control plane. The command validates the whole file before it writes anything.

Example:
  modelgate restore modelgate-backup.gz --pepper pepper --etcd-endpoints https://etcd:2379 --ledger postgres://modelgate@db/modelgate`
}

// Run restores a backup.
func (c RestoreCmd) Run(ctx context.Context, stdout io.Writer, log *zap.Logger) (err error) {
	if c.Ledger == "" && !c.WithoutLedger {
		return admincli.Misused("give --ledger or --without-ledger")
	}
	root, err := existingRoot(c.Pepper)
	if err != nil {
		return err
	}
	etcd, err := c.Etcd.Client(log)
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }() // it reports the end of its own context
	t := backup.Target{Etcd: etcd, WithoutLedger: c.WithoutLedger, Root: root}
	if !c.WithoutLedger {
		if t.Ledger, err = ledger.Open(ctx, c.Ledger, log.Named("ledger")); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.Ledger.Close()) }()
	}
	file, remove, err := c.file(os.Stdin)
	if err != nil {
		return err
	}
	defer remove()
	h, counts, err := backup.Restore(ctx, file, t)
	if errors.Is(err, ledger.ErrNotEmpty) {
		return fmt.Errorf("%w: give a new database, or --without-ledger to keep the existing one", err)
	}
	if err != nil {
		return err
	}
	rows := counts.Rows
	if c.WithoutLedger {
		rows = 0
	}
	_, err = fmt.Fprintf(stdout, "restored %d keys and %d rows of the ledger, as they were at %s\n", counts.Keys, rows,
		h.Created.Format("2006-01-02 15:04:05 MST"))
	return err
}

// file returns the path of the backup. The standard input is kept in a file for as long: a backup is read twice, so
// that nothing is written of one that is not good.
func (c RestoreCmd) file(stdin io.Reader) (path string, remove func(), err error) {
	if c.File != "-" {
		return c.File, func() {}, nil
	}
	kept, err := os.CreateTemp("", "modelgate-backup-*")
	if err != nil {
		return "", nil, fmt.Errorf("keeping the standard input: %w", err)
	}
	remove = func() { _ = os.Remove(kept.Name()) } // in a folder for temporary files
	_, err = io.Copy(kept, stdin)
	if err = errors.Join(err, kept.Close()); err != nil {
		remove()
		return "", nil, fmt.Errorf("keeping the standard input: %w", err)
	}
	return kept.Name(), remove, nil
}

// existingRoot returns the fingerprint of a root secret, and makes none.
func existingRoot(path string) (string, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no root secret in %s: copy the gateway's root secret there; a backup does not contain it", path)
	}
	root, err := secret.LoadRoot(path)
	if err != nil {
		return "", err
	}
	return root.Fingerprint(), nil
}
