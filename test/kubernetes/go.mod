// What the test of the chart in a real Kubernetes needs. Kubernetes itself is in the modules below: nothing here links it.
module github.com/modelgate/modelgate/test/kubernetes

go 1.26.0

require github.com/stretchr/testify v1.12.1

require go.yaml.in/yaml/v3 v3.0.5 // indirect
