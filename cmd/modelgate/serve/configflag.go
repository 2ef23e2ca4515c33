package serve

import (
	"fmt"
	"os"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
)

// configObjects returns the objects of the files of --config. There may be none.
func configObjects(files []string) ([]configv1.Object, error) {
	if len(files) == 0 {
		return nil, nil
	}
	docs, err := (cmdline.FileFlags{Filename: files}).Read(os.Stdin)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	return cmdline.ObjectsOf(docs), nil
}

// configRefused says that the objects of these files were refused.
func configRefused(err error) error { return fmt.Errorf("applying --config: %w", admincli.Said(err)) }
