package kubernetes

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// namespaceFile has the namespace of a pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// NewClient returns a client of the API server that a kubeconfig file names, or without one of that whose pod this is.
func NewClient(file string) (dynamic.Interface, error) {
	var config *rest.Config
	var err error
	if file == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", file)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the API server of Kubernetes: %w", err)
	}
	config.QPS = -1 // the API server has its own priority and fairness
	config.UserAgent = "modelgate"
	return dynamic.NewForConfig(config)
}

// OwnNamespace returns the namespace of the pod, or "" outside of one.
func OwnNamespace() string {
	text, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
