package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/controlplane/backup"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

type backupCmd struct {
	Output        string `short:"o" required:"" placeholder:"FILE" help:"File that the backup is written to, which only you can read. One that is there is replaced, when the new one is whole. -: the standard output."`
	Ledger        string `env:"MODELGATE_LEDGER" placeholder:"URL" help:"The ledger, as the control plane has it: sqlite:///path or postgres://..."`
	WithoutLedger bool   `help:"Leave the ledger out: its database has a backup of its own."`

	Etcd etcdFlags `embed:"" prefix:"etcd-"`
}

// Help is shown below the flags' summary.
func (backupCmd) Help() string {
	return `Everything may go on while it is made. The file holds configuration, keys' hashes, sealed credentials, accounts, jobs and the ledger. It holds neither
the root secret (--pepper of the control plane), without which it is of no use, nor the bytes of files, which are in the blob store.

Example:
  modelgate backup --etcd-endpoints https://etcd:2379 --ledger postgres://modelgate@db/modelgate -o modelgate-backup.gz`
}

// Run makes a backup.
func (c backupCmd) Run(ctx context.Context, stdout io.Writer, log *zap.Logger) (err error) {
	if c.Ledger == "" && !c.WithoutLedger {
		return errors.New("give --ledger or --without-ledger")
	}
	etcd, err := c.Etcd.client(log)
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }() // it reports the end of its own context
	s := backup.Source{Etcd: etcd, By: version()}
	if !c.WithoutLedger {
		// Opening it would make one.
		if path, ok := strings.CutPrefix(c.Ledger, "sqlite://"); ok {
			if _, err := os.Stat(path); err != nil {
				return fmt.Errorf("opening the ledger: %w", err)
			}
		}
		if s.Ledger, err = ledger.Open(ctx, c.Ledger, log.Named("ledger")); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Ledger.Close()) }()
	}
	if c.Output == "-" {
		h, counts, err := backup.Write(ctx, stdout, s)
		if err == nil {
			log.Info("saved", zap.Int64("keys", counts.Keys), zap.Int64("revision", h.Revision), zap.Int64("rows", counts.Rows))
		}
		return err
	}
	h, counts, err := backup.Save(ctx, c.Output, s)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "saved %d keys of revision %d and %d rows of the ledger in %s\n", counts.Keys, h.Revision, counts.Rows, c.Output)
	return err
}
