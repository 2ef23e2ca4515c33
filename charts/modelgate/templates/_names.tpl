{{/* Names, labels and images. */}}

{{- define "modelgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* What names begin with. Of a long one a hash is the end, so that two releases never share a name. */}}
{{- define "modelgate.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = .Release.Name -}}
{{- if not (contains (include "modelgate.name" .) $name) -}}
{{- $name = printf "%s-%s" $name (include "modelgate.name" .) -}}
{{- end -}}
{{- end -}}
{{- if gt (len $name) 36 -}}
{{- $name = printf "%s-%s" (trunc 27 $name | trimSuffix "-") (sha256sum $name | trunc 8) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* What selects the pods of a component: (list $ "dataplane"). It never changes in the life of a release. */}}
{{- define "modelgate.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "modelgate.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "modelgate.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{ include "modelgate.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: modelgate
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object: (list $ "dataplane" "name-suffix"). */}}
{{- define "modelgate.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "modelgate.fullname" $root }}-{{ index . 2 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "modelgate.labels" . | nindent 2 }}
{{- end -}}

{{/* The full DNS name of a Service of the release: (list $ "controlplane"). */}}
{{- define "modelgate.host" -}}
{{- $root := index . 0 -}}
{{- include "modelgate.fullname" $root }}-{{ index . 1 }}.{{ $root.Release.Namespace }}.svc.{{ $root.Values.clusterDomain }}
{{- end -}}

{{/* Where the Gateway "mesh" listens, which only the sidecar of its pod reaches. */}}
{{- define "modelgate.meshAddress" -}}
{{- ternary "[::1]" "127.0.0.1" (contains ":" .Values.gateway.address) }}:8080
{{- end -}}

{{/* All DNS names of a Service, as a JSON list: (list $ "controlplane"). */}}
{{- define "modelgate.hosts" -}}
{{- $root := index . 0 -}}
{{- $short := printf "%s-%s" (include "modelgate.fullname" $root) (index . 1) -}}
{{- $ns := $root.Release.Namespace -}}
{{- list $short (printf "%s.%s" $short $ns) (printf "%s.%s.svc" $short $ns) (include "modelgate.host" .) | toJson -}}
{{- end -}}

{{/* An image's reference: (list $ .Values.image). Ours has the chart's appVersion as its tag. */}}
{{- define "modelgate.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- $tag := $image.tag -}}
{{- if and (not $tag) (not $image.digest) }}{{ $tag = $root.Chart.AppVersion }}{{ end -}}
{{- $image.repository }}{{ with $tag }}:{{ . }}{{ end }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{/* image and imagePullPolicy of a container: (list $ .Values.image). */}}
{{- define "modelgate.containerImage" -}}
image: {{ include "modelgate.image" . }}
imagePullPolicy: {{ (index . 1).pullPolicy }}
{{- end -}}

{{- define "modelgate.serviceAccount" -}}
{{- $root := index . 0 -}}{{- $values := index . 2 -}}
{{- if $values.serviceAccount.create -}}
{{- default (printf "%s-%s" (include "modelgate.fullname" $root) (index . 1)) $values.serviceAccount.name -}}
{{- else -}}
{{- default "default" $values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* A ServiceAccount whose token is mounted only in pods that say so: the control plane of kubernetes.enabled. */}}
{{- define "modelgate.serviceAccountObject" -}}
{{- $root := index . 0 -}}{{- $values := index . 2 -}}
{{- if $values.serviceAccount.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "modelgate.serviceAccount" . }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "modelgate.labels" . | nindent 4 }}
  {{- with $values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
{{- end -}}

{{/* Ports of Gateways of the Gateway API, as JSON. */}}
{{- define "modelgate.listeners" -}}
{{- if and .Values.kubernetes.enabled .Values.kubernetes.gatewayAPI.enabled -}}
{{- toJson .Values.kubernetes.gatewayAPI.ports -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}
