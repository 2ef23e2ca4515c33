package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/atomicfile"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/datadir"
)

// LedgerCmd is the command ledger.
type LedgerCmd struct {
	Export LedgerExportCmd `cmd:"" help:"Export the request log as Parquet files, for DuckDB, ClickHouse, Spark and others."`
}

// LedgerExportCmd is the command ledger export.
type LedgerExportCmd struct {
	Output string `short:"o" required:"" placeholder:"DIR" help:"Folder for the files. It is made if it does not exist."`
	Since  string `required:"" placeholder:"TIME" help:"Requests from then on: a time, a date (UTC), or how long ago, such as 24h or 7d."`
	Until  string `default:"0s" placeholder:"TIME" help:"Requests before then. Default: now."`
	Data   string `placeholder:"DIR" help:"Data folder of modelgate run, instead of --ledger. The gateway may be running or stopped."`
	Ledger string `env:"MODELGATE_LEDGER" placeholder:"URL" help:"The ledger of the control plane: sqlite:///path or postgres://..."`
	Blobs  string `env:"MODELGATE_BLOBS" placeholder:"URL" help:"Blob store of the control plane, which has the older requests. Default with --data: the one in the folder."`
}

// Help is shown below the flags' summary.
func (LedgerExportCmd) Help() string {
	return `Each day, UTC, has files of its own, such as requests-2026-11-01-0001.parquet, with at most 65536 requests each. A file that exists is not
replaced: the command fails, and leaves the files of the days before. A request is in the ledger a few seconds after its end: end the span earlier
if none may be missing. docs/segments.md describes the columns.

Examples:
  modelgate ledger export --data data --since 2026-11-01 --until 2026-12-01 -o november
  duckdb -c "SELECT model, sum(requests), sum(cost_usd) FROM 'november/*.parquet' GROUP BY model"`
}

// fileRows is how many rows a file has at most. They are in memory at once.
const fileRows = 8 * segment.GroupRows

// Run exports the request log.
func (c LedgerExportCmd) Run(ctx context.Context, stdout io.Writer, log *zap.Logger) (err error) {
	start, end, err := adminflags.ParsePeriod(c.Since, c.Until, time.Now())
	if err != nil {
		return err
	}
	switch {
	case c.Data != "":
		c.Ledger, c.Blobs = datadir.Ledger(c.Data), cmp.Or(c.Blobs, datadir.Blobs(c.Data))
	case c.Ledger == "":
		return admincli.Misused("give --data or --ledger")
	}
	l, leave, err := openExisting(ctx, c.Ledger, c.Blobs, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	if err := os.MkdirAll(c.Output, 0o700); err != nil {
		return err
	}
	x := &exporter{dir: c.Output, encoder: segment.NewEncoder()}
	if err := l.Export(ctx, start, end, x.add); err != nil {
		return err
	}
	if err := x.flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "exported %d requests to %d files in %s\n", x.rows, x.files, c.Output)
	return err
}

// openExisting opens a ledger that there is, with its blob store unless that is empty. To open another would make it.
func openExisting(ctx context.Context, dsn, blobs string, log *zap.Logger) (l *ledger.Ledger, leave func() error,
	err error) {
	if path, ok := strings.CutPrefix(dsn, "sqlite://"); ok {
		if _, err := os.Stat(path); err != nil {
			return nil, nil, fmt.Errorf("opening the ledger: %w", err)
		}
	}
	if l, err = ledger.Open(ctx, dsn, log.Named("ledger")); err != nil || blobs == "" {
		return l, func() error { return l.Close() }, err
	}
	bucket, err := blobstore.Open(ctx, blobs)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	l.Use(bucket)
	return l, func() error { return errors.Join(l.Close(), bucket.Close()) }, nil
}

// An exporter writes rows, which come in the order of their time, to files.
type exporter struct {
	dir         string
	encoder     *segment.Encoder
	waiting     []segment.Row // of one day
	day         string        // of the last file
	ofDay       int           // number of the last file
	rows, files int
}

// add adds rows, and writes the files that are complete.
func (x *exporter) add(rows []segment.Row) error {
	for i := range rows {
		full := len(x.waiting) == fileRows
		if full || len(x.waiting) > 0 && dayOf(&x.waiting[0]) != dayOf(&rows[i]) {
			if err := x.flush(); err != nil {
				return err
			}
		}
		x.waiting = append(x.waiting, rows[i])
	}
	return nil
}

func dayOf(r *segment.Row) string { return time.UnixMicro(r.StartedAt).UTC().Format(time.DateOnly) }

// flush writes the rows that wait, if there are any.
func (x *exporter) flush() error {
	if len(x.waiting) == 0 {
		return nil
	}
	if day := dayOf(&x.waiting[0]); day != x.day {
		x.day, x.ofDay = day, 0
	}
	x.ofDay++
	body, _, err := x.encoder.Encode(x.waiting)
	if err != nil {
		return err
	}
	if err := writeNew(filepath.Join(x.dir, fmt.Sprintf("requests-%s-%04d.parquet", x.day, x.ofDay)), body); err != nil {
		return err
	}
	x.rows, x.files = x.rows+len(x.waiting), x.files+1
	clear(x.waiting)
	x.waiting = x.waiting[:0]
	return nil
}

// writeNew writes a file that does not exist. Nobody sees a part of it under its name.
func writeNew(name string, body []byte) error {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, errors.Join(err, fs.ErrExist))
	}
	return atomicfile.Write(name, body, 0o600)
}
