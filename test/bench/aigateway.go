package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/certs"
)

//go:embed aigateway.yaml
var aiGatewayConfig string

const (
	aiGatewayRun         = "bench" // what its folders of this run are called
	aiGatewayCertificate = "certificate"
	aiGatewayTranslated  = "claude-sonnet-4-5"
)

// startAIGateway starts Envoy AI Gateway as "aigw run" does: its control plane, its ext_proc service in the same
// process, and an Envoy with what the control plane generates. The Envoy is ours: it is put where aigw looks for one
// that it has downloaded. It has no keys of clients, no limits and no prices, and sends the model's name as it came.
//
// aigw takes the ports 1061, 8081, 9856, 18000, 18002, 19000, 19001 and 19003, which no flag changes. Its folders are
// told by environment variables: it reads the flags for them only after it has chosen its folders. It keeps the
// certificates of its control plane below the home folder, which is therefore a folder of this run too.
func startAIGateway(ctx context.Context, o options, dir, mock string) (*target, error) {
	if _, err := certs.Ensure(dir, nil, time.Now()); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	admin, err := freePort()
	if err != nil {
		return nil, err
	}
	if err := prepareAIGateway(ctx, o.envoy, dir, mock, port); err != nil {
		return nil, err
	}
	sockets, remove, err := process.SocketDir(dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, o.aiGateway, "run", filepath.Join(dir, "aigateway.yaml"), "--run-id", aiGatewayRun,
		"--admin-port", strconv.Itoa(admin))
	cmd.Env = append(os.Environ(), "HOME="+dir, "AIGW_CONFIG_HOME="+dir, "AIGW_DATA_HOME="+dir, "AIGW_STATE_HOME="+dir,
		"AIGW_RUNTIME_DIR="+sockets, "GOOGLE_APPLICATION_CREDENTIALS="+filepath.Join(dir, "google.json"))
	log, end, err := startLogged(cmd, dir)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	stop := func() error { return errors.Join(end(), remove()) }
	if err := addCertificate(ctx, dir); err != nil {
		return nil, errors.Join(err, stop(), lastLines(log))
	}
	t := &target{name: targetAIGateway, stop: stop, log: log, translated: aiGatewayTranslated,
		job: plainJob(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir, cmd.Process.Pid, partGo)}
	t.job.Model = "mock"
	return t, nil
}

// prepareAIGateway writes the configuration of the gateway, puts Envoy where it is looked for, and writes an account
// of Google's whose tokens come from the mock.
func prepareAIGateway(ctx context.Context, envoy, dir, mock string, port int) error {
	said, err := output(ctx, envoy, "--version")
	if err != nil {
		return err
	}
	version, _, _ := strings.Cut(envoyVersion(said), "/")
	text, err := renderAIGateway(dir, mock, version, port)
	if err != nil {
		return err
	}
	account, err := json.Marshal(object{"type": "authorized_user", "client_id": "bench", "client_secret": "bench",
		"refresh_token": "bench", "token_uri": "http://" + mock + "/token"})
	if err != nil {
		return err
	}
	binary, err := filepath.Abs(envoy)
	if err != nil {
		return err
	}
	bin := filepath.Join(dir, "envoy-versions", version, "bin")
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "aigateway.yaml"), text, 0o600),
		os.WriteFile(filepath.Join(dir, "google.json"), account, 0o600),
		os.MkdirAll(bin, 0o700),
		os.Symlink(binary, filepath.Join(bin, "envoy")))
}

func renderAIGateway(dir, mock, version string, port int) ([]byte, error) {
	return render(aiGatewayConfig, mock, map[string]any{
		"Port": port, "EnvoyVersion": version, "Workers": workers,
		"AccessLog": filepath.Join(dir, "access.log"), "Certificate": aiGatewayCertificate,
		"Translated": aiGatewayTranslated,
	})
}

// addCertificate puts the listener's certificate where aigw is about to write the objects that it translates: it hands
// its control plane no secret of the user's. It does so as soon as aigw has made the folder, because the control plane
// watches the folder only after it has read it: what is written between is never seen. The file is whole when it gets
// there: half a file ends the control plane.
func addCertificate(ctx context.Context, dir string) error {
	secret := object{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata": object{"name": aiGatewayCertificate, "namespace": "default"}}
	data := map[string][]byte{}
	for name, file := range map[string]string{"tls.crt": certs.FileServer, "tls.key": certs.FileServerKey} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		data[name] = text
	}
	secret["data"] = data
	const name = "certificate.yaml"
	whole := filepath.Join(dir, name)
	if err := os.WriteFile(whole, encode(secret), 0o600); err != nil {
		return err
	}
	folder := filepath.Join(dir, "runs", aiGatewayRun, "envoy-ai-gateway-resources")
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := os.Rename(whole, filepath.Join(folder, name))
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if !wait(ctx, 20*time.Millisecond) {
			return fmt.Errorf("it makes no folder for its objects: %w", ctx.Err())
		}
	}
}
