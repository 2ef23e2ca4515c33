package serve

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// InstallCmd is the command install.
type InstallCmd struct {
	Dir string `arg:"" help:"Folder. Created if it does not exist."`
}

// Help is shown below the flags' summary.
func (InstallCmd) Help() string {
	return `The name of the file is "modelgate". An existing file is replaced atomically, and running processes keep the old one.
An init container does this, so that the supervisor of Envoy runs in Envoy's own image.`
}

// Run copies the binary that is running.
func (c *InstallCmd) Run() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the running binary: %w", err)
	}
	if err := install(self, c.Dir); err != nil {
		return fmt.Errorf("installing into %s: %w", c.Dir, err)
	}
	return nil
}

// install copies the program at path to dir/modelgate, for anyone to run and for no one to change. Whoever looks finds
// the whole program or none.
func install(path, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	// Beside its place and not in a folder for temporary files: a rename does not cross file systems.
	to, err := os.CreateTemp(dir, ".modelgate-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(to.Name()) }() // which fails once it has been renamed
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Chmod(0o555), to.Close()); err != nil {
		return err
	}
	return os.Rename(to.Name(), filepath.Join(dir, "modelgate"))
}
