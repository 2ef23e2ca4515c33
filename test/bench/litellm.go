package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/modelgate/modelgate/internal/certs"
)

const litellmKey = "sk-bench"

// startLiteLLM starts the proxy of LiteLLM, as pip installs it, with one worker and one model: the mock's.
func startLiteLLM(ctx context.Context, o options, dir, mock string) (*target, error) {
	if _, err := certs.Ensure(dir, nil, time.Now()); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "litellm.yaml")
	text := fmt.Sprintf("model_list:\n  - model_name: %s/mock\n    litellm_params: { model: openai/mock, api_key: unused, "+
		"api_base: %q }\ngeneral_settings: { master_key: %s }\n", providerName, "http://"+mock+"/v1", litellmKey)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	command, err := filepath.Abs(o.litellm)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, command, "--config", config, "--host", "127.0.0.1", "--port", strconv.Itoa(port),
		"--ssl_keyfile_path", filepath.Join(dir, certs.FileServerKey), "--ssl_certfile_path",
		filepath.Join(dir, certs.FileServer), "--telemetry", "False")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LITELLM_LOCAL_MODEL_COST_MAP=True") // it would fetch a list of prices
	log, stop, err := startLogged(cmd, dir)
	if err != nil {
		return nil, err
	}
	j := plainJob(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir, cmd.Process.Pid, partGo)
	j.Key = litellmKey
	return &target{name: targetLiteLLM, stop: stop, log: log, job: j}, nil
}

// startLogged starts a peer, whose output goes to a file of the folder.
func startLogged(cmd *exec.Cmd, dir string) (log string, stop func() error, err error) {
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return "", nil, err
	}
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	return f.Name(), func() error {
		_ = end(cmd) // it says by its status that it was told to end
		return f.Close()
	}, nil
}

// freePort returns a port of loopback that nobody has at the moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
