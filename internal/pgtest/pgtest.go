// Package pgtest runs a real PostgreSQL for the tests of a package.
//
// [Run] starts the server from TestMain, once per test binary. It does not sync to disk, so that tests are fast. Its
// data survives the kill of a client, but not a crash of the machine.
package pgtest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
)

// Address is the environment variable with the URL of a server, without a database. If it is set already, Run
// starts none.
const Address = "MODELGATE_TEST_POSTGRES"

const startTimeout = 30 * time.Second

// Run starts a PostgreSQL where its programs are installed, runs the tests, stops it, and returns the code to exit
// with.
func Run(m *testing.M) int {
	if os.Getenv(Address) != "" {
		return m.Run()
	}
	stop, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting PostgreSQL for tests:", err)
		return 1
	}
	defer stop()
	return m.Run()
}

// Start returns the URL of a new and empty database that is dropped when the test ends. It skips the test where there
// is no PostgreSQL.
func Start(t testing.TB) string {
	t.Helper()
	address := os.Getenv(Address)
	if address == "" {
		testenv.Missing(t, "PostgreSQL (initdb and postgres on the PATH, or in /usr/lib/postgresql)",
			"tools/services/install.sh")
	}
	admin, err := sql.Open("pgx", address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, admin.Close()) })
	name := fmt.Sprintf("test_%016x", rand.Uint64())
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
	})
	u, err := url.Parse(address)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

// start runs a server on a Unix socket, and puts its URL into the environment.
func start() (stop func(), err error) {
	initdb, postgres := find("initdb"), find("postgres")
	if initdb == "" || postgres == "" {
		return func() {}, nil // tests skip
	}
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	as, err := ordinary(dir)
	if err != nil {
		remove()
		return nil, err
	}
	data := filepath.Join(dir, "data")
	var out bytes.Buffer
	init := exec.Command(initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
	init.Dir, init.SysProcAttr, init.Stdout, init.Stderr = dir, as, &out, &out
	if err := init.Run(); err != nil {
		remove()
		return nil, fmt.Errorf("initdb: %w: %s", err, out.String())
	}
	server := exec.Command(postgres, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c",
		"full_page_writes=off", "-c", "max_connections=200")
	server.Dir, server.SysProcAttr, server.Stdout, server.Stderr = dir, as, &out, &out
	if err := server.Start(); err != nil {
		remove()
		return nil, err
	}
	stop = func() {
		_ = server.Process.Signal(syscall.SIGINT) // its fast shutdown
		_ = server.Wait()
		remove()
	}
	address := (&url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/postgres",
		RawQuery: url.Values{"host": {dir}}.Encode()}).String()
	if err := ready(address); err != nil {
		stop()
		return nil, fmt.Errorf("%w: %s", err, out.String())
	}
	return stop, os.Setenv(Address, address)
}

// ready returns when the server answers.
func ready(address string) error {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(errors.New("it was not ready in time"), err)
		}
	}
}

// find returns the path of a program of PostgreSQL's, of several versions the last, or "".
func find(program string) string {
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program) // the pattern is good
	if len(found) == 0 {
		return ""
	}
	return slices.Max(found)
}

// ordinary gives a folder to a user that is not root, as whom PostgreSQL refuses to run, and returns how to run as
// that user.
func ordinary(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}},
		os.Chown(dir, int(uid), int(gid))
}
