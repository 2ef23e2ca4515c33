{{/*
The certificates between processes, and the gateway's own. Each authority is apart from the others, so that what the
data plane holds opens neither etcd nor PostgreSQL. Whoever issues them, they are in Secrets of the same form: tls.crt, tls.key, ca.crt.
*/}}

{{/* The Secret of a certificate of the internal authority: (list $ "dataplane"). */}}
{{- define "modelgate.pkiSecret" -}}
{{- $root := index . 0 -}}
{{- if eq $root.Values.pki.mode "secrets" -}}
{{- required (printf "pki.secrets.%s is required with pki.mode secrets" (index . 1)) (index $root.Values.pki.secrets (index . 1)) -}}
{{- else -}}
{{- include "modelgate.fullname" $root }}-{{ index . 1 }}-tls
{{- end -}}
{{- end -}}

{{/* The Secret of the certificate that clients see. */}}
{{- define "modelgate.gatewaySecret" -}}
{{- if eq .Values.gateway.certificate.source "secret" -}}
{{- .Values.gateway.certificate.secretName -}}
{{- else -}}
{{- include "modelgate.fullname" . }}-gateway-tls
{{- end -}}
{{- end -}}

{{/* The Secret of an authority of the release's own that issued it; empty where the system's authorities know it. */}}
{{- define "modelgate.gatewayAuthority" -}}
{{- with .Values.gateway.certificate -}}
{{- if or (eq .source "selfSigned") (and (eq .source "certManager") (not .issuerRef)) -}}
{{- include "modelgate.gatewaySecret" $ -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Secret of the authority that helm test checks the gateway by. */}}
{{- define "modelgate.testedAuthority" -}}
{{- default (include "modelgate.gatewayAuthority" .) .Values.tests.caSecret -}}
{{- end -}}

{{/* The Secret of etcd's client certificate, of the bundled etcd or given; may be empty. */}}
{{- define "modelgate.etcdSecret" -}}
{{- if .Values.etcd.bundled.enabled -}}
{{- include "modelgate.fullname" . }}-etcd-client-tls
{{- else -}}
{{- .Values.etcd.tls.secretName -}}
{{- end -}}
{{- end -}}

{{/* The authorities of the release, as JSON: name -> mode, issuerRef, and leaves with their DNS names. */}}
{{- define "modelgate.authorities" -}}
{{- $name := include "modelgate.fullname" . -}}
{{- $internal := dict
  "controlplane" (append (fromJsonArray (include "modelgate.hosts" (list . "controlplane"))) "localhost")
  "dataplane" (list "dataplane") -}}
{{- if .Values.jobsvc.enabled -}}
{{- $_ := set $internal "internal" (fromJsonArray (include "modelgate.hosts" (list . "internal"))) -}}
{{- $_ := set $internal "jobsvc" (append (fromJsonArray (include "modelgate.hosts" (list . "jobsvc"))) "jobsvc") -}}
{{- end -}}
{{- if .Values.extproc.standalone.enabled -}}
{{- $_ := set $internal "extproc" (append (fromJsonArray (include "modelgate.hosts" (list . "extproc"))) "dataplane") -}}
{{- end -}}
{{- $all := dict "internal" (dict "mode" .Values.pki.mode "issuerRef" .Values.pki.certManager.issuerRef "leaves" $internal) -}}
{{- $bundled := ternary "certManager" "selfSigned" (eq .Values.pki.mode "certManager") -}}
{{- if .Values.etcd.bundled.enabled -}}
{{- $members := list "localhost" -}}
{{- range $i := until 3 -}}
{{- $members = append $members (printf "%s-etcd-%d.%s" $name $i (include "modelgate.host" (list $ "etcd"))) -}}
{{- end -}}
{{- $_ := set $all "etcd" (dict "mode" $bundled "leaves" (dict "etcd" $members "etcd-client" (list "etcd-client"))) -}}
{{- end -}}
{{- if .Values.postgresql.bundled.enabled -}}
{{- $_ := set $all "postgresql" (dict "mode" $bundled "leaves" (dict "postgresql" (fromJsonArray (include "modelgate.hosts" (list . "postgresql"))))) -}}
{{- end -}}
{{- with .Values.gateway.certificate -}}
{{- $hosts := .dnsNames -}}
{{- if not .issuerRef -}}{{/* A public authority issues for public names alone. */}}
{{- $hosts = concat $hosts (fromJsonArray (include "modelgate.hosts" (list $ "gateway"))) (list "localhost") -}}
{{- end -}}
{{- $_ := set $all "gateway" (dict "mode" .source "issuerRef" .issuerRef "leaves" (dict "gateway" $hosts)) -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}
