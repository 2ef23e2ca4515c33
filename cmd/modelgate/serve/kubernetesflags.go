package serve

import (
	"slices"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/controlplane/kubernetes"
)

// kubernetesFlags say whether objects of Kubernetes declare the configuration, and which.
type kubernetesFlags struct {
	Kubernetes          bool     `help:"Take configuration from objects of Kubernetes (modelgate.dev), besides files and the admin API."`
	KubernetesConfig    string   `placeholder:"FILE" help:"kubeconfig of the API server. Default: that of the cluster in whose pod the process is."`
	KubernetesNamespace string   `placeholder:"NAMESPACE" help:"Namespace whose objects are the platform's: they may be of any kind, for everybody. Default: that of the pod."`
	KubernetesWatch     []string `sep:"none" placeholder:"NAMESPACE" help:"Watch only this namespace and others that are given. Default: all namespaces. May be given more than once."`

	KubernetesGatewayController string `placeholder:"NAME" help:"How GatewayClasses of the Gateway API name this gateway, such as modelgate.dev/gateway-controller: their Gateways and HTTPRoutes become configuration. Default: none are read."`
	KubernetesGatewayService    string `placeholder:"NAME" help:"Service that leads to the data plane, in the namespace of the platform: it says which ports and addresses Gateways have. Default: Envoy listens on the ports of Gateways."`
}

// source returns where objects are read, or nil.
func (f kubernetesFlags) source() (*kubernetes.Source, error) {
	if !f.Kubernetes {
		if f.KubernetesConfig != "" || f.KubernetesNamespace != "" || len(f.KubernetesWatch) > 0 ||
			f.KubernetesGatewayController != "" {
			return nil, admincli.Misused("other flags that begin with --kubernetes- need --kubernetes")
		}
		return nil, nil
	}
	if f.KubernetesGatewayService != "" && f.KubernetesGatewayController == "" {
		return nil, admincli.Misused("--kubernetes-gateway-service needs --kubernetes-gateway-controller")
	}
	s := &kubernetes.Source{Platform: f.KubernetesNamespace, Namespaces: f.KubernetesWatch,
		GatewayController: f.KubernetesGatewayController, GatewayService: f.KubernetesGatewayService}
	if s.Platform == "" {
		s.Platform = kubernetes.OwnNamespace()
	}
	if s.Platform == "" {
		return nil, admincli.Misused("--kubernetes needs --kubernetes-namespace outside of a pod")
	}
	if len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, s.Platform) {
		s.Namespaces = append(s.Namespaces, s.Platform)
	}
	var err error
	s.Client, err = kubernetes.NewClient(f.KubernetesConfig)
	return s, err
}
