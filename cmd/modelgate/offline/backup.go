package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/controlplane/backup"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/datadir"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
)

// BackupCmd is the command backup.
type BackupCmd struct {
	Output        string `short:"o" required:"" placeholder:"FILE" help:"File for the backup. Only you can read it. An existing file is replaced when the new one is complete. -: standard output."`
	Data          string `placeholder:"DIR" help:"Data folder of modelgate run, instead of --etcd-endpoints and --ledger. The gateway may be running or stopped."`
	Ledger        string `env:"MODELGATE_LEDGER" placeholder:"URL" help:"The ledger of the control plane: sqlite:///path or postgres://..."`
	Blobs         string `env:"MODELGATE_BLOBS" placeholder:"URL" help:"Blob store of the control plane, which has the older requests. Default with --data: the one in the folder."`
	WithoutLedger bool   `help:"Omit the ledger, because its database has its own backup."`

	Etcd cmdline.EtcdFlags `embed:"" prefix:"etcd-"`
}

// Help is shown below the flags' summary.
func (BackupCmd) Help() string {
	return `The gateway can run during the backup. The file contains the configuration, keys' hashes, sealed credentials, accounts, jobs and the ledger. It does not contain
the root secret (--pepper of the control plane), which a restore needs, or the content of files, which is in the blob store.

Examples:
  modelgate backup --data data -o modelgate-backup.gz
  modelgate backup --etcd-endpoints https://etcd:2379 --ledger postgres://modelgate@db/modelgate -o modelgate-backup.gz`
}

// Run makes a backup.
func (c BackupCmd) Run(ctx context.Context, stdout io.Writer, log *zap.Logger) (err error) {
	if c.Data == "" && c.Ledger == "" && !c.WithoutLedger {
		return admincli.Misused("give --data, --ledger or --without-ledger")
	}
	if c.Data != "" {
		if c.Data, err = filepath.Abs(c.Data); err != nil {
			return err
		}
	}
	etcd, leave, err := c.open(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	if c.Data != "" && c.Ledger == "" {
		c.Ledger, c.Blobs = datadir.Ledger(c.Data), cmp.Or(c.Blobs, datadir.Blobs(c.Data))
	}
	s := backup.Source{Etcd: etcd, By: proc.Version()}
	if !c.WithoutLedger {
		var closeLedger func() error
		if s.Ledger, closeLedger, err = openExisting(ctx, c.Ledger, c.Blobs, log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeLedger()) }()
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
	_, err = fmt.Fprintf(stdout, "saved %d keys of revision %d and %d rows of the ledger in %s\n", counts.Keys,
		h.Revision, counts.Rows, c.Output)
	return err
}

// open connects to etcd, or to that of the data folder, which it starts if no gateway runs there.
func (c BackupCmd) open(ctx context.Context, log *zap.Logger) (etcd *clientv3.Client, leave func() error, err error) {
	if c.Data == "" {
		etcd, err = c.Etcd.Client(log)
		return etcd, func() error { _ = etcd.Close(); return nil }, err // it reports the end of its own context
	}
	if _, err := os.Stat(filepath.Join(c.Data, datadir.DirEtcd)); err != nil {
		return nil, nil, fmt.Errorf("%s is not the data folder of a gateway: %w", c.Data, err)
	}
	data, err := datadir.Open(c.Data)
	if err != nil && !errors.Is(err, datadir.ErrRuns) {
		return nil, nil, err
	}
	running := err != nil
	sockets, remove, err := process.SocketDir(c.Data)
	if err != nil {
		return nil, nil, err
	}
	if running {
		etcd, err = cmdline.EtcdFlags{Endpoints: []string{"unix://" + filepath.Join(sockets, "etcd.sock")}}.Client(log)
		return etcd, func() error { _ = etcd.Close(); return nil }, err
	}
	p := parts.New(log)
	leave = func() error {
		return errors.Join(p.Stop(context.WithoutCancel(ctx)), remove(), data.Close())
	}
	if etcd, err = proc.StartEtcd(ctx, p, data.File(datadir.DirEtcd), sockets, 0,
		log.Named("etcd").WithOptions(zap.IncreaseLevel(proc.EtcdQuiet))); err != nil {
		return nil, nil, errors.Join(err, leave())
	}
	return etcd, leave, nil
}
