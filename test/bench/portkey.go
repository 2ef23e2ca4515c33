package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// portkeyScript is what starts it, where npm has installed it.
const portkeyScript = "node_modules/@portkey-ai/gateway/build/start-server.js"

// startPortkey starts Portkey's gateway, as npm installs it, in one process. It serves no TLS. Headers of each request
// say where it asks.
func startPortkey(ctx context.Context, o options, dir, mock string) (*target, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	script, err := filepath.Abs(o.portkey)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "node", script, "--port="+strconv.Itoa(port), "--headless")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "NODE_ENV=production")
	log, stop, err := startLogged(cmd, dir)
	if err != nil {
		return nil, err
	}
	j := job{URL: "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Key: "unused", Model: "mock",
		PID: cmd.Process.Pid, Root: partGo,
		Head: "X-Portkey-Provider: openai\r\nX-Portkey-Custom-Host: http://" + mock + "/v1\r\n"}
	return &target{name: targetPortkey, stop: stop, log: log, job: j}, nil
}

// startDirect asks the mock itself.
func startDirect(_ context.Context, _ options, _, mock string) (*target, error) {
	j := job{URL: "http://" + mock, Key: "unused", Model: "mock", PID: os.Getpid(), Root: partGo}
	return &target{name: targetDirect, stop: func() error { return nil }, job: j}, nil
}
