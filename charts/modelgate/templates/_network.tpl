{{/* Parts of NetworkPolicies. */}}

{{/* The head of a component's policy: (list $ "dataplane"). */}}
{{- define "modelgate.policy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "modelgate.metadata" (list (index . 0) (index . 1) (index . 1)) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "modelgate.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
{{- end -}}

{{/* Pods of components of this release, as peers on ports: (list $ "from" (list "dataplane") 18000). */}}
{{- define "modelgate.rule" -}}
{{- $root := index . 0 -}}
- {{ index . 1 }}:
  {{- range $component := index . 2 }}
  - podSelector:
      matchLabels:
        {{- include "modelgate.selector" (list $root $component) | nindent 8 }}
  {{- end }}
  ports: [{protocol: TCP, port: {{ index . 3 }}}]
{{- end -}}

{{/* Peers that values name, on ports; nothing where there are none: (list "to" peers ports). */}}
{{- define "modelgate.peers" -}}
{{- if index . 1 -}}
- {{ index . 0 }}:
  {{- toYaml (index . 1) | nindent 2 }}
  ports:
  {{- range index . 2 }}
  - {protocol: TCP, port: {{ . }}}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Egress of those of our processes that export telemetry. */}}
{{- define "modelgate.otlpRule" -}}
{{- if .Values.telemetry.otlp.endpoint }}
{{- include "modelgate.peers" (list "to" .Values.networkPolicy.otlp.peers (list .Values.networkPolicy.otlp.port)) }}
{{- end }}
{{- end -}}

{{/* Egress to etcd, the bundled one or given peers. */}}
{{- define "modelgate.etcdRule" -}}
{{- if .Values.etcd.bundled.enabled }}
{{- include "modelgate.rule" (list . "to" (list "etcd") 2379) }}
{{- else }}
{{- include "modelgate.peers" (list "to" .Values.networkPolicy.etcd.peers (list .Values.networkPolicy.etcd.port)) }}
{{- end }}
{{- end -}}

{{/* Egress of ext_proc to what counts limits. */}}
{{- define "modelgate.redisRule" -}}
{{- if .Values.redis.bundled.enabled }}
{{- include "modelgate.rule" (list . "to" (list "redis") 6379) }}
{{- else if .Values.redis.url }}
{{- include "modelgate.peers" (list "to" .Values.networkPolicy.redis.peers (list .Values.networkPolicy.redis.port)) }}
{{- end }}
{{- end -}}

{{/* An Ingress to a Service of the release: (list $ "component" "service" .ingress port). */}}
{{- define "modelgate.ingress" -}}
{{- $root := index . 0 -}}{{- $service := index . 2 -}}{{- $port := index . 4 -}}
{{- with index . 3 -}}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  {{- include "modelgate.metadata" (list $root (index $ 1) $service) | nindent 2 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .tlsSecret }}
  tls:
  - secretName: {{ . }}
    hosts: {{ toJson (index $ 3).hosts }}
  {{- end }}
  rules:
  {{- range .hosts }}
  - host: {{ . | quote }}
    http:
      paths:
      - path: /
        pathType: Prefix
        backend:
          service:
            name: {{ include "modelgate.fullname" $root }}-{{ $service }}
            port: {number: {{ $port }}}
  {{- end }}
{{- end }}
{{- end -}}
