{{/* What pods and containers have in common. */}}

{{/* Metadata of a pod: (list $ "dataplane" .Values.dataplane "port for Prometheus or empty"). */}}
{{- define "modelgate.podMetadata" -}}
{{- $root := index . 0 -}}{{- $values := index . 2 -}}
labels:
  {{- include "modelgate.selector" (list $root (index . 1)) | nindent 2 }}
  {{- with $root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with $values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What every pod's spec begins with: (list $ "dataplane" .Values.dataplane "name of the ServiceAccount"). */}}
{{- define "modelgate.podSpec" -}}
{{- $root := index . 0 -}}{{- $component := index . 1 -}}{{- $values := index . 2 -}}
serviceAccountName: {{ index . 3 }}
automountServiceAccountToken: {{ and (eq $component "controlplane") $root.Values.kubernetes.enabled }}
enableServiceLinks: false
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
- name: {{ . }}
  {{- end }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
{{ toYaml . }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $values.topologySpreadConstraints }}
topologySpreadConstraints:
{{ toYaml $values.topologySpreadConstraints }}
{{- else if $values.spread }}
topologySpreadConstraints:
{{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- maxSkew: 1
  topologyKey: {{ $key }}
  whenUnsatisfiable: {{ $values.spread }}
  # Nodes that take none of these pods do not count, nor do pods of before: with DoNotSchedule either would stop an upgrade.
  nodeTaintsPolicy: Honor
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- include "modelgate.selector" (list $root $component) | nindent 6 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The address on which processes listen for other pods. */}}
{{- define "modelgate.any" -}}
{{- ternary "[::]" "0.0.0.0" (contains ":" .Values.gateway.address) -}}
{{- end -}}

{{/* A part of a container's limit of memory, in bytes; nothing where it has none: (list .resources 0.75). */}}
{{- define "modelgate.memory" -}}
{{- $limit := get (get (default dict (index . 0)) "limits" | default dict) "memory" | toString -}}
{{- if regexMatch "^[0-9]+([.][0-9]+)?([kMGT]|[KMGT]i)?$" $limit -}}
{{- $units := dict "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- mulf (regexFind "^[0-9.]+" $limit) (get $units (regexFind "[a-zA-Z]+$" $limit) | default 1) (index . 1) | int64 -}}
{{- end -}}
{{- end -}}

{{/* Environment of one of our processes: (list $ "extproc" .Values.extproc). */}}
{{- define "modelgate.env" -}}
{{- $root := index . 0 -}}{{- $values := index . 2 -}}
- {name: MODELGATE_LOG_LEVEL, value: {{ $root.Values.log.level }}}
- {name: MODELGATE_LOG_FORMAT, value: json}
{{- if ne (index . 1) "envoy" }}{{/* Whose limit is Envoy's too. */}}
{{- with include "modelgate.memory" (list $values.resources 0.9) }}
- {name: GOMEMLIMIT, value: {{ . | quote }}}
{{- end }}
{{- end }}
{{- with $root.Values.telemetry.otlp }}
{{- if .endpoint }}
- name: POD
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ .endpoint | quote }}}
- {name: OTEL_EXPORTER_OTLP_PROTOCOL, value: {{ .protocol }}}
- {name: OTEL_SERVICE_NAME, value: modelgate-{{ index $ 1 }}}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: k8s.namespace.name={{ $root.Release.Namespace }},k8s.pod.name=$(POD){{ with .resourceAttributes }},{{ . }}{{ end }}
- {name: OTEL_TRACES_SAMPLER, value: {{ .sampler }}}
- {name: OTEL_TRACES_SAMPLER_ARG, value: {{ .samplerArgument | quote }}}
{{- with .headersSecret.name }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $root.Values.telemetry.otlp.headersSecret.key }}}}
{{- end }}
{{- end }}
{{- end }}
{{- with $values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "modelgate.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/*
Probes by HTTP: (dict "port" "admin" "scheme" "HTTP"). A process that does not start in five minutes is started anew. One that is busy
for some seconds stays ready: a large change of the configuration busies all at once, and they would be without a pod.
*/}}
{{- define "modelgate.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: 300
readinessProbe:
  httpGet: {path: /readyz, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 2
  timeoutSeconds: 3
  failureThreshold: {{ default 5 .failures }}
livenessProbe:
  httpGet: {path: /healthz, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}

{{/* A volume of a Secret: (list "name" "secret"). */}}
{{- define "modelgate.secretVolume" -}}
- name: {{ index . 0 }}
  secret: {secretName: {{ index . 1 }}, defaultMode: 0440}
{{- end -}}

{{/* A PodDisruptionBudget that lets one pod go at a time: (list $ "dataplane" "dataplane"). */}}
{{- define "modelgate.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "modelgate.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  {{- /* A member of etcd that has lost the others may be the last one that has the data. */}}
  unhealthyPodEvictionPolicy: {{ ternary "IfHealthyBudget" "AlwaysAllow" (eq (index . 1) "etcd") }}
  selector:
    matchLabels:
      {{- include "modelgate.selector" (list (index . 0) (index . 1)) | nindent 6 }}
{{- end -}}

{{/* The volume of something that is kept, or is not: (list $ "name" .persistence "default claim"). */}}
{{- define "modelgate.dataVolume" -}}
{{- $persistence := index . 2 -}}
- name: {{ index . 1 }}
  {{- if $persistence.enabled }}
  persistentVolumeClaim: {claimName: {{ default (index . 3) $persistence.existingClaim }}}
  {{- else }}
  emptyDir: {sizeLimit: {{ $persistence.size }}}
  {{- end }}
{{- end -}}

{{/* What a claim asks for: .persistence. */}}
{{- define "modelgate.claimSpec" -}}
accessModes: {{ toJson .accessModes }}
{{- with .storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests: {storage: {{ .size }}}
{{- end -}}

{{/* A HorizontalPodAutoscaler of a component's Deployment: (list $ "dataplane" .autoscaling). */}}
{{- define "modelgate.autoscaler" -}}
{{- with index . 2 -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "modelgate.metadata" (list (index $ 0) (index $ 1) (index $ 1)) | nindent 2 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ include "modelgate.fullname" (index $ 0) }}-{{ index $ 1 }}}
  minReplicas: {{ .minReplicas }}
  maxReplicas: {{ .maxReplicas }}
  metrics:
  {{- with .targetCPUUtilizationPercentage }}
  - type: Resource
    resource:
      name: cpu
      target: {type: Utilization, averageUtilization: {{ . }}}
  {{- end }}
  {{- with .metrics }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  behavior:
    {{- toYaml .behavior | nindent 4 }}
{{- end }}
{{- end -}}
