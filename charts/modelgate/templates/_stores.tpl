{{/* Where the stores are, of the bundle or given. */}}

{{/* What a client of etcd needs; in the environment, so that commands that are run in the pod have it too. */}}
{{- define "modelgate.etcdEnv" -}}
{{- $endpoints := .Values.etcd.endpoints }}
{{- if .Values.etcd.bundled.enabled }}
{{- $endpoints = list }}
{{- range $i := until 3 }}
{{- $endpoints = append $endpoints (printf "https://%s-etcd-%d.%s:2379" (include "modelgate.fullname" $) $i (include "modelgate.host" (list $ "etcd"))) }}
{{- end }}
{{- end }}
- {name: MODELGATE_ETCD, value: {{ join "," $endpoints | quote }}}
{{- if include "modelgate.etcdSecret" . }}
- {name: MODELGATE_ETCD_CA, value: /etc/modelgate/etcd/ca.crt}
{{- if or .Values.etcd.bundled.enabled .Values.etcd.tls.clientCertificate }}
- {name: MODELGATE_ETCD_CERT, value: /etc/modelgate/etcd/tls.crt}
- {name: MODELGATE_ETCD_KEY, value: /etc/modelgate/etcd/tls.key}
{{- end }}
{{- end }}
{{- with .Values.etcd.auth }}
{{- if .secretName }}
- name: MODELGATE_ETCD_USERNAME
  valueFrom: {secretKeyRef: {name: {{ .secretName }}, key: {{ .usernameKey }}}}
- name: MODELGATE_ETCD_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .secretName }}, key: {{ .passwordKey }}}}
{{- end }}
{{- end }}
{{- end -}}

{{/* Whether the ledger is in PostgreSQL: non-empty. */}}
{{- define "modelgate.postgresql" -}}
{{- with .Values.postgresql }}{{ if or .bundled.enabled .url .urlSecret.name }}true{{ end }}{{ end }}
{{- end -}}

{{- define "modelgate.ledgerEnv" -}}
{{- with .Values.postgresql }}
{{- if .bundled.enabled }}
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "modelgate.fullname" $ }}-postgresql, key: password}}
- name: MODELGATE_LEDGER
  value: postgres://modelgate@{{ include "modelgate.host" (list $ "postgresql") }}:5432/postgres?sslmode=verify-full&sslrootcert=/etc/modelgate/postgresql/ca.crt
{{- else if .urlSecret.name }}
- name: MODELGATE_LEDGER
  valueFrom: {secretKeyRef: {name: {{ .urlSecret.name }}, key: {{ .urlSecret.key }}}}
{{- else if .url }}
{{- with .passwordSecret }}
{{- if .name }}
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
{{- end }}
{{- end }}
- {name: MODELGATE_LEDGER, value: {{ .url | quote }}}
{{- else }}
- {name: MODELGATE_LEDGER, value: "sqlite:///var/lib/modelgate/ledger.db"}
{{- end }}
{{- end }}
{{- end -}}

{{/* Flags of ext_proc for its counters. */}}
{{- define "modelgate.limitFlags" -}}
{{- if .Values.redis.bundled.enabled }}
- --limits=redis://{{ include "modelgate.host" (list . "redis") }}:6379
{{- else if .Values.redis.url }}
- --limits={{ .Values.redis.url }}
{{- else }}
- --limits=memory
{{- end }}
- --limits-failure={{ .Values.extproc.limitsFailure }}
- --limits-share={{ .Values.extproc.limitsShare }}
- --limits-part={{ .Values.extproc.limitsPart }}
{{- if .Values.extproc.limitsOneLedger }}
- --limits-one-ledger
{{- end }}
{{- end -}}

{{- define "modelgate.limitEnv" -}}
{{- if .Values.redis.tlsSecret }}
# Besides the system's authorities, which are read from a file.
- {name: SSL_CERT_DIR, value: /etc/modelgate/redis}
{{- end }}
{{- if .Values.redis.bundled.enabled }}
- name: MODELGATE_REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "modelgate.fullname" . }}-redis, key: password}}
{{- else }}
{{- with .Values.redis.passwordSecret }}
{{- if .name }}
- name: MODELGATE_REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Flags of a client of the control plane. */}}
{{- define "modelgate.xdsFlags" -}}
- --xds-address={{ include "modelgate.host" (list . "controlplane") }}:18000
- --xds-cert=/etc/modelgate/tls/tls.crt
- --xds-key=/etc/modelgate/tls/tls.key
- --xds-ca=/etc/modelgate/tls/ca.crt
{{- end -}}

{{/* The Secret of the pepper and the admin token. */}}
{{- define "modelgate.rootSecret" -}}
{{- default (printf "%s-root" (include "modelgate.fullname" .)) .Values.rootSecret.existingSecret -}}
{{- end -}}

{{/* A password that is made once: (list $ "redis"). */}}
{{- define "modelgate.password" -}}
{{- $root := index . 0 -}}
{{- $stored := lookup "v1" "Secret" $root.Release.Namespace (printf "%s-%s" (include "modelgate.fullname" $root) (index . 1)) -}}
{{- if $stored }}{{ index $stored.data "password" | b64dec }}{{ else }}{{ randAlphaNum 32 }}{{ end -}}
{{- end -}}
