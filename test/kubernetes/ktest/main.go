// Package main is one binary that is every part of a Kubernetes cluster: etcd, the API server, the controllers, the
// scheduler, the kubelet, the proxy, CoreDNS and metrics-server, and the clients kubectl and helm. The test of the chart runs a real
// cluster from it, without a registry of images.
//
// Which part it is, is the name it is called by (a link named kubectl is kubectl), or else its first argument. All
// parts share one process image and with it the global flags of every package that is linked, which is why main clears
// those.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	helm "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	metrics "sigs.k8s.io/metrics-server/cmd/metrics-server/app"

	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	os.Args[0] = filepath.Base(os.Args[0])
	if os.Args[0] == "ktest" {
		os.Args = os.Args[1:]
	}
	if len(os.Args) == 0 {
		fmt.Fprintln(os.Stderr,
			"usage: ktest etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kube-proxy|coredns|metrics-server|kubectl|helm ...")
		os.Exit(2)
	}
	// The kubelet looks its own flags up in the global set, and CoreDNS parses it; the others would meet flags of the
	// same name there.
	if name := os.Args[0]; name != "coredns" && name != "kubelet" {
		flag.CommandLine = flag.NewFlagSet(name, flag.ExitOnError)
	}
	switch os.Args[0] {
	case "etcd":
		etcdmain.Main(os.Args)
	case "coredns":
		runDNS()
	default:
		command, err := command(os.Args[0])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(cli.Run(command))
	}
}

func command(name string) (*cobra.Command, error) {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand(), nil
	case "kube-controller-manager":
		return controllers.NewControllerManagerCommand(), nil
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand(), nil
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background()), nil
	case "kube-proxy":
		return proxy.NewProxyCommand(), nil
	case "metrics-server":
		return metrics.NewMetricsServerCommand(genericserver.SetupSignalHandler()), nil
	case "kubectl":
		return kubectl.NewDefaultKubectlCommand(), nil
	case "helm":
		kube.ManagedFieldsManager = "helm" // as helm's own main has it: fields are owned under this name
		return helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
	}
	return nil, fmt.Errorf("ktest: there is no part %q", name)
}
