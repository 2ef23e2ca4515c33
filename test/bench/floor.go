package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/extproc/carrier"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/transport"
	"github.com/modelgate/modelgate/extproc/wire"
)

// A roleJob is what the process of a target is told that is a role of this program: its folder, the Envoy that it
// starts, and the mock's address.
type roleJob struct {
	Dir, Envoy, Mock string
}

// startFloor starts the cheapest ext_proc service there can be, with an Envoy that asks it.
func startFloor(ctx context.Context, o options, dir, mock string) (*target, error) {
	return startRole(ctx, targetFloor, roleFloor, roleJob{Dir: dir, Envoy: o.envoy, Mock: mock})
}

// startRole starts this program in the role of a target, which says at which address it serves.
func startRole(ctx context.Context, name, role string, of roleJob) (*target, error) {
	cmd, err := self(ctx, role)
	if err != nil {
		return nil, err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := func() error { return errors.Join(stdin.Close(), cmd.Wait()) }
	if err := json.NewEncoder(stdin).Encode(of); err != nil {
		return nil, errors.Join(err, stop())
	}
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("it ended without an address: %w", err), stop())
	}
	return &target{name: name, stop: stop,
		job: plainJob(strings.TrimSpace(address), of.Dir, cmd.Process.Pid, partGo)}, nil
}

// serveFloor is the process of the floor. It runs until its input ends.
func serveFloor(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	var job roleJob
	if err := json.NewDecoder(in).Decode(&job); err != nil {
		return err
	}
	sockets, remove, err := process.SocketDir(filepath.Join(job.Dir, roleFloor))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	socket := filepath.Join(sockets, "floor.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	panicked := func(reason any, _ []byte) { fmt.Fprintln(os.Stderr, "the floor:", reason) }
	server := transport.New(transport.Options{MaxMessage: 16 << 20, Service: openFloor, Panicked: panicked})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	envoy, err := startPlainEnvoy(ctx, job.Envoy, job.Dir, job.Mock, socket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, envoy.stop()) }()
	if _, err := fmt.Fprintln(out, envoy.address); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// A floor does the least that a gateway must do with a stream: it finds the model, puts a credential and the body of
// the request in place, and lets the answer pass piece by piece.
type floor struct {
	stream *transport.Stream
	in     wire.Message
	reply  exchange.Reply
	out    wire.Response
}

func openFloor(s *transport.Stream, _ transport.Headers) (transport.Handler, error) {
	return &floor{stream: s}, nil
}

var (
	modelName  = []byte(`"model":`)
	credential = exchange.Headers{{Name: "authorization", Value: "Bearer sk-upstream"}, {Name: "x-model", Value: "mock"}}
)

// Message implements [transport.Handler].
func (f *floor) Message(b []byte, _ bool) error {
	if err := f.in.Decode(b); err != nil {
		return err
	}
	f.reply = exchange.Reply{ReplaceBody: true, Body: f.in.Body}
	if f.in.Phase == carrier.RequestBody {
		if !bytes.Contains(f.in.Body, modelName) {
			return errors.New("a request without a model")
		}
		f.reply.Set = credential
	}
	f.out = wire.Response{Phase: f.in.Phase, Reply: &f.reply}
	return f.stream.Send(&f.out)
}

// Close implements [transport.Handler].
func (f *floor) Close() error { return nil }
