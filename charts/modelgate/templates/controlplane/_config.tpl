{{/* The configuration that the chart knows of, and the user's objects after it, as YAML documents. */}}
{{- define "modelgate.baseline" -}}
{{- $objects := list
  (dict "kind" "Certificate" "name" "default" "chain_file" "/etc/modelgate/gateway/tls.crt" "private_key" (dict "file" "/etc/modelgate/gateway/tls.key"))
  (merge (dict "kind" "Gateway" "name" "default" "address" .Values.gateway.address "port" 8443 "certificate" "default") .Values.gateway.settings) -}}
{{- if and .Values.dataplane.enabled .Values.istio.enabled -}}
{{- /* The sidecar adds the client's address. */}}
{{- $objects = append $objects (merge (dict "kind" "Gateway" "name" "mesh" "address" (ternary "::1" "127.0.0.1" (contains ":" .Values.gateway.address)) "port" 8080
    "certificate" "default" "trusted_hops" 1) .Values.gateway.settings) -}}
{{- end -}}
{{- if .Values.jobsvc.enabled -}}
{{- $stored := dict -}}
{{- with .Values.jobsvc.storedResponses }}{{ if .enabled }}{{ $stored = dict "stored_responses" (dict "retention" .retention) }}{{ end }}{{ end -}}
{{- $objects = concat $objects (list
  (dict "kind" "Certificate" "name" "internal" "chain_file" "/etc/modelgate/internal/tls.crt" "private_key" (dict "file" "/etc/modelgate/internal/tls.key"))
  (merge $stored (dict "kind" "JobService" "name" "default" "address" (printf "%s:9090" (include "modelgate.host" (list . "jobsvc"))) "listen" (printf (ternary "[%s]:8444" "%s:8444" (contains ":" .Values.gateway.address)) .Values.gateway.address)
    "tls" (dict "certificate" "internal" "server_name" "jobsvc" "ca_file" "/etc/modelgate/internal/ca.crt")))) -}}
{{- end -}}
{{- if .Values.echo.enabled -}}
{{- $objects = append $objects (dict "kind" "Provider" "name" "echo" "vendor" "echo" "models" (list "echo")
    "endpoint" (printf "http://%s:9100" (include "modelgate.host" (list . "echo")))) -}}
{{- end -}}
{{- range concat $objects .Values.config }}
---
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Its ConfigMap's name has the hash of its content: pods of before keep theirs while new ones are tried. */}}
{{- define "modelgate.baselineName" -}}
{{- include "modelgate.fullname" . }}-config-{{ include "modelgate.baseline" . | trim | sha256sum | trunc 10 }}
{{- end -}}
