package charts_test

import (
	"bytes"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// modelgate builds the binary and returns its path. It stays where the go command finds that there is nothing to do.
func modelgate(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../.cache/charts/modelgate")
	require.NoError(t, err)
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, "./cmd/modelgate")
	build.Dir = ".."
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// TestTheBinaryKnowsWhatTheChartSays, of flags and of configuration. Building it takes most of the time, so it is
// built once.
func TestTheBinaryKnowsWhatTheChartSays(t *testing.T) {
	binary := modelgate(t)
	t.Run("knows every flag", func(t *testing.T) { knowsEveryFlag(t, binary) })
	t.Run("accepts the configuration", func(t *testing.T) { acceptsTheConfiguration(t, binary) })
}

// A process is a container that runs our binary, and how.
type process struct {
	workload  workload
	container corev1.Container
}

func (p process) name() string { return p.workload.name + "/" + p.container.Name }

func (p process) command() string {
	words := slices.Clone(p.container.Args)
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") }); i >= 0 {
		words = words[:i]
	}
	return strings.Join(words, " ")
}

// processes are the containers of our image, and those that run the binary which an init container has installed.
func processes(t *testing.T, objects []object) []process {
	t.Helper()
	var found []process
	for _, w := range workloads(t, objects) {
		for _, c := range w.containers() {
			ours := regexp.MustCompile(`/modelgate[:@]`).MatchString(c.Image)
			if ours {
				require.Empty(t, c.Command, "%s/%s: the image has its entrypoint", w.name, c.Name)
			}
			if ours || slices.Equal(c.Command, []string{"/opt/modelgate/bin/modelgate"}) {
				found = append(found, process{w, c})
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}

// knowsEveryFlag has the binary parse the very command lines; values must be of the flags' types too.
func knowsEveryFlag(t *testing.T, binary string) {
	t.Helper()
	commands := map[string]bool{}
	parsed := map[string]bool{}
	eachReleaseInTurn(t, func(t *testing.T, objects []object) {
		for _, p := range processes(t, objects) {
			commands[p.command()] = true
			line := strings.Join(p.container.Args, "\n")
			if parsed[line] {
				continue
			}
			parsed[line] = true
			out, err := exec.Command(binary, append(slices.Clone(p.container.Args), "--help")...).CombinedOutput()
			require.NoError(t, err, "%s: modelgate %s\n%s", p.name(), strings.Join(p.container.Args, " "), out)
		}
	})
	for _, command := range []string{"controlplane", "extproc", "envoy run", "jobsvc", "install /opt/modelgate/bin",
		"echo", "check"} {
		require.True(t, commands[command], "nothing runs modelgate %s", command)
	}
	out, err := exec.Command(binary, "controlplane", "--no-such-flag=1", "--help").CombinedOutput()
	require.Error(t, err, "this test cannot fail: an unknown flag is let pass: %s", out)
}

// eachReleaseInTurn is eachRelease for checks that keep what they saw.
func eachReleaseInTurn(t *testing.T, check func(*testing.T, []object)) {
	t.Helper()
	all := releases(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { check(t, render(t, all[name])) })
	}
}

// TestTheBinaryReadsEveryVariable, though not each by the process that has it: some are for the commands that people
// run in a pod of the control plane.
func TestTheBinaryReadsEveryVariable(t *testing.T) {
	read := map[string]bool{}
	reader := regexp.MustCompile(`(?:os\.Getenv\("|os\.LookupEnv\("|env:"|env=')(MODELGATE_[A-Z0-9_]+)`)
	require.NoError(t, filepath.WalkDir("../cmd/modelgate", func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range reader.FindAllSubmatch(text, -1) {
			read[string(match[1])] = true
		}
		return err
	}))
	eachRelease(t, func(t *testing.T, objects []object) {
		for _, p := range processes(t, objects) {
			for _, e := range p.container.Env {
				require.True(t, read[e.Name] || !strings.HasPrefix(e.Name, "MODELGATE_"), "%s: nothing reads %s", p.name(), e.Name)
			}
		}
	})
}

// TestPortsAreWhatTheProcessesListenOn, in both directions: a container names the ports of its flags, and no others.
func TestPortsAreWhatTheProcessesListenOn(t *testing.T) {
	eachRelease(t, func(t *testing.T, objects []object) {
		for _, p := range processes(t, objects) {
			listens := map[int32]bool{}
			for _, arg := range p.container.Args {
				if _, port, ok := strings.Cut(arg, "=0.0.0.0:"); ok {
					number, err := strconv.ParseInt(port, 10, 32)
					require.NoError(t, err, arg)
					listens[int32(number)] = true
				}
			}
			if p.command() == "envoy run" { // its listeners are in the configuration
				for _, match := range regexp.MustCompile(`(?:port: |listen: 0\.0\.0\.0:)(\d+)`).FindAllStringSubmatch(baseline(t,
					objects), -1) {
					number, err := strconv.ParseInt(match[1], 10, 32)
					require.NoError(t, err)
					listens[int32(number)] = true
				}
			}
			for _, port := range p.container.Ports {
				if p.command() == "envoy run" && port.Name == "internal" && !listens[port.ContainerPort] {
					continue // without a job service nobody listens there
				}
				if strings.HasPrefix(port.Name, "listener-") {
					continue // which objects of the Gateway API open
				}
				require.True(t, listens[port.ContainerPort], "%s: nothing listens on %d", p.name(), port.ContainerPort)
				delete(listens, port.ContainerPort)
			}
			require.Empty(t, listens, "%s listens on ports that it does not name", p.name())
		}
	})
}

// baseline returns the configuration that the chart writes.
func baseline(t *testing.T, objects []object) string {
	t.Helper()
	for _, c := range all[*corev1.ConfigMap](objects) {
		if text, ok := c.Data["baseline.yaml"]; ok {
			return text
		}
	}
	require.Fail(t, "no ConfigMap has baseline.yaml")
	return ""
}

// acceptsTheConfiguration that the control plane is started with.
func acceptsTheConfiguration(t *testing.T, binary string) {
	t.Helper()
	eachReleaseInTurn(t, func(t *testing.T, objects []object) {
		validate := exec.Command(binary, "config", "validate", "-f", "-")
		validate.Stdin = strings.NewReader(baseline(t, objects))
		out, err := validate.CombinedOutput()
		require.NoError(t, err, "%s\n%s", out, baseline(t, objects))
	})
	validate := exec.Command(binary, "config", "validate", "-f", "-")
	validate.Stdin = bytes.NewReader([]byte("kind: Gateway\nname: default\nnonsense: 1\n"))
	require.Error(t, validate.Run(), "this test cannot fail: nonsense is let pass")
}

// inCluster is an address of a Service, in a flag, a variable or the configuration.
var inCluster = regexp.MustCompile(`(?:[a-z]+://)?[\w.@-]+\.` + namespace + `\.svc\.cluster\.local(?::\d+)?`)

// TestAddressesAreServicesOfTheRelease, with the port that the Service has.
func TestAddressesAreServicesOfTheRelease(t *testing.T) {
	eachRelease(t, func(t *testing.T, objects []object) {
		services := map[string]*corev1.Service{}
		for _, s := range all[*corev1.Service](objects) {
			services[s.Name] = s
		}
		found := inCluster.FindAllString(baseline(t, objects), -1)
		for _, p := range processes(t, objects) {
			for _, arg := range p.container.Args {
				found = append(found, inCluster.FindAllString(arg, -1)...)
			}
			for _, e := range p.container.Env {
				found = append(found, inCluster.FindAllString(e.Value, -1)...)
			}
		}
		require.NotEmpty(t, found)
		for _, address := range found {
			requireService(t, services, address)
		}
	})
}

func requireService(t *testing.T, services map[string]*corev1.Service, address string) {
	t.Helper()
	host := address
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		host = u.Host
	}
	port := ""
	if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, p
	}
	name := strings.TrimSuffix(host, "."+namespace+".svc.cluster.local")
	if _, service, ok := strings.Cut(name, "."); ok { // of one pod of a headless Service
		name = service
	}
	s, ok := services[name]
	require.True(t, ok, "%s: the release has no Service %s", address, name)
	if port != "" {
		require.True(t, slices.ContainsFunc(s.Spec.Ports,
			func(p corev1.ServicePort) bool { return strconv.Itoa(int(p.Port)) == port }),
			"%s: the Service %s has no such port", address, name)
	}
}
