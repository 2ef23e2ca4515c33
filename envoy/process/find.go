package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// EnvBinary is the environment variable that names the Envoy binary.
const EnvBinary = "MODELGATE_ENVOY"

// MinVersion is the oldest Envoy that the gateway's wiring works on: the first with the priority_group cluster
// specifier, which tries the providers of a plan in order.
const MinVersion = "1.40.0"

const howToGet = `Ways to get Envoy:
  - make envoy, in a clone of this repository, installs bin/envoy
  - func-e (https://func-e.io)
  - the official image envoyproxy/envoy: copy /usr/local/bin/envoy out of it
  - the package of your distribution
Name the binary with --envoy or $` + EnvBinary + `, or put it on the PATH.`

// Find returns the path of an Envoy that is new enough. It looks at explicit and at $MODELGATE_ENVOY, a binary
// there that is too old is an error. Then it looks on the PATH, beside this executable, and at bin/envoy in the
// working directory, and skips binaries that are too old. The error names the ways to get one.
func Find(ctx context.Context, explicit string) (string, error) {
	for _, path := range []string{explicit, os.Getenv(EnvBinary)} {
		if path != "" {
			return check(ctx, path)
		}
	}
	var failures []error
	for _, path := range places() {
		found, err := check(ctx, path)
		if err == nil {
			return found, nil
		}
		if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
			failures = append(failures, err)
		}
	}
	if len(failures) > 0 {
		return "", fmt.Errorf("no Envoy that is new enough was found: %w\n%s", errors.Join(failures...), howToGet)
	}
	return "", errors.New("no Envoy was found.\n" + howToGet)
}

// places are where a binary is looked for that no one named.
func places() []string {
	all := []string{"envoy"}
	if executable, err := os.Executable(); err == nil {
		all = append(all, filepath.Join(filepath.Dir(executable), "envoy"))
	}
	if dir, err := os.Getwd(); err == nil {
		all = append(all, filepath.Join(dir, "bin", "envoy"))
	}
	return all
}

// check returns the absolute path of the binary when its version is at least MinVersion.
func check(ctx context.Context, path string) (string, error) {
	found, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("finding the Envoy binary: %w", err)
	}
	if found, err = filepath.Abs(found); err != nil {
		return "", fmt.Errorf("finding the Envoy binary: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	asked := exec.CommandContext(ctx, found, "--version")
	asked.Env = []string{} // as the Envoy that serves
	said, err := asked.Output()
	if errors.Is(ctx.Err(), context.Canceled) {
		return "", ctx.Err() // who asked does not want to know any more
	}
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", found, err)
	}
	version, err := parseVersion(string(said))
	if err != nil {
		return "", fmt.Errorf("%s: %w", found, err)
	}
	if older(version, MinVersion) {
		return "", fmt.Errorf("%s is Envoy %s; %s or newer is needed", found, version, MinVersion)
	}
	return found, nil
}

// parseVersion reads what envoy --version prints: "envoy  version: <commit>/1.40.0/Clean/RELEASE/BoringSSL".
func parseVersion(said string) (string, error) {
	match := regexp.MustCompile(`version: [0-9a-f]+/(\d+\.\d+\.\d+)`).FindStringSubmatch(said)
	if match == nil {
		return "", fmt.Errorf("it does not print a version as Envoy does")
	}
	return match[1], nil
}

// older compares versions of three numbers.
func older(a, b string) bool {
	left, right := strings.Split(a, "."), strings.Split(b, ".")
	for i := range right {
		// A part that is no number cannot pass parseVersion.
		l, _ := strconv.Atoi(left[i])
		r, _ := strconv.Atoi(right[i])
		if l != r {
			return l < r
		}
	}
	return false
}
