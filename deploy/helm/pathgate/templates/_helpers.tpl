{{/* Name in labels. */}}
{{- define "pathgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Prefix of object names; short, since pods, claims and hooks append to it. */}}
{{- define "pathgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "pathgate.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What selects the workers; immutable on a StatefulSet. */}}
{{- define "pathgate.selectorLabels" -}}
app.kubernetes.io/name: {{ include "pathgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of every object but the workers' pods. */}}
{{- define "pathgate.labels" -}}
{{ include "pathgate.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: grader
app.kubernetes.io/part-of: pathgate
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "pathgate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "pathgate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "pathgate.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "pathgate.usesSasl" -}}
{{- if hasPrefix "SASL_" .Values.kafka.securityProtocol }}true{{ end -}}
{{- end -}}

{{- define "pathgate.usesTls" -}}
{{- if hasSuffix "SSL" .Values.kafka.securityProtocol }}true{{ end -}}
{{- end -}}

{{- define "pathgate.hasSuites" -}}
{{- if or .Values.suites.existingConfigMap .Values.suites.files }}true{{ end -}}
{{- end -}}

{{/* Refuses values that could not work, each by name. */}}
{{- define "pathgate.validate" -}}
{{- $partitions := int (default 6 .Values.config.partitions) -}}
{{- if not .Values.kafka.bootstrapServers -}}
{{- fail "kafka.bootstrapServers: required, host:port of the brokers" -}}
{{- end -}}
{{- if and (not .Values.keda.enabled) (gt (int .Values.replicaCount) $partitions) -}}
{{- fail (printf "replicaCount: %d workers have only config.partitions=%d partitions to share" (int .Values.replicaCount) $partitions) -}}
{{- end -}}
{{- if and .Values.keda.enabled (gt (int .Values.keda.maxReplicaCount) $partitions) -}}
{{- fail (printf "keda.maxReplicaCount: %d workers have only config.partitions=%d partitions to share" (int .Values.keda.maxReplicaCount) $partitions) -}}
{{- end -}}
{{- if include "pathgate.usesSasl" . -}}
{{- range $name := list "mechanism" "username" "existingSecret" -}}
{{- if not (get $.Values.kafka.sasl $name) -}}
{{- fail (printf "kafka.sasl.%s: needed with kafka.securityProtocol=%s" $name $.Values.kafka.securityProtocol) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.keda.enabled (not .Values.keda.authenticationRef) -}}
{{- fail "keda.authenticationRef: KEDA reads the lag itself and needs the credentials too" -}}
{{- end -}}
{{- else if .Values.kafka.sasl.mechanism -}}
{{- fail (printf "kafka.sasl.mechanism: has no use with kafka.securityProtocol=%s" .Values.kafka.securityProtocol) -}}
{{- end -}}
{{- if and (not (include "pathgate.usesTls" .)) (or .Values.kafka.tls.caSecret .Values.kafka.tls.certSecret) -}}
{{- fail (printf "kafka.tls: has no use with kafka.securityProtocol=%s" .Values.kafka.securityProtocol) -}}
{{- end -}}
{{- end -}}

{{/* One setting as TOML: JSON's strings, booleans and numbers are TOML's too. */}}
{{- define "pathgate.setting" -}}
{{ .name }} = {{ toJson .value }}
{{ end -}}

{{/* The settings file. Takes the root context, and the SASL user as `username`. */}}
{{- define "pathgate.settings" -}}
{{- $root := .root -}}
{{- $kafka := $root.Values.kafka -}}
{{- $all := dict "bootstrap_servers" $kafka.bootstrapServers "security_protocol" $kafka.securityProtocol -}}
{{- if include "pathgate.usesSasl" $root -}}
{{- $_ := set $all "sasl_mechanism" $kafka.sasl.mechanism -}}
{{- $_ := set $all "sasl_username" .username -}}
{{- $_ := set $all "sasl_password_file" "/etc/pathgate/secrets/sasl/password" -}}
{{- end -}}
{{- if include "pathgate.usesTls" $root -}}
{{- $_ := set $all "ssl_check_hostname" $kafka.tls.checkHostname -}}
{{- if $kafka.tls.caSecret -}}
{{- $_ := set $all "ssl_ca_file" "/etc/pathgate/secrets/ca/ca.crt" -}}
{{- end -}}
{{- if $kafka.tls.certSecret -}}
{{- $_ := set $all "ssl_cert_file" "/etc/pathgate/secrets/tls/tls.crt" -}}
{{- $_ := set $all "ssl_key_file" "/etc/pathgate/secrets/tls/tls.key" -}}
{{- if $kafka.tls.keyPasswordKey -}}
{{- $_ := set $all "ssl_key_password_file" "/etc/pathgate/secrets/tls/password" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (include "pathgate.hasSuites" $root) .isWorker -}}
{{- $_ := set $all "suites_dir" "/etc/pathgate/suites" -}}
{{- end -}}
{{- if and $root.Values.argsDigestKey.existingSecret .isWorker -}}
{{- $_ := set $all "args_digest_key_file" "/etc/pathgate/secrets/digest/key" -}}
{{- end -}}
{{- range $name, $value := $root.Values.config -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $all $name $value -}}
{{- end -}}
{{- end -}}
{{- range $name := keys $all | sortAlpha -}}
{{- include "pathgate.setting" (dict "name" $name "value" (get $all $name)) -}}
{{- end -}}
{{- end -}}

{{/* Volumes of the credentials, under fixed file names. Takes root, saslSecret, passwordKey
and certSecret. */}}
{{- define "pathgate.secretVolumes" -}}
{{- $tls := .root.Values.kafka.tls -}}
{{- if include "pathgate.usesSasl" .root }}
- name: sasl
  secret:
    secretName: {{ .saslSecret }}
    defaultMode: 0440
    items:
      - key: {{ .passwordKey }}
        path: password
{{- end }}
{{- if $tls.caSecret }}
- name: ca
  secret:
    secretName: {{ $tls.caSecret }}
    defaultMode: 0440
    items:
      - key: {{ $tls.caKey }}
        path: ca.crt
{{- end }}
{{- if $tls.certSecret }}
- name: tls
  secret:
    secretName: {{ .certSecret }}
    defaultMode: 0440
    items:
      - key: {{ $tls.certKey }}
        path: tls.crt
      - key: {{ $tls.keyKey }}
        path: tls.key
      {{- if $tls.keyPasswordKey }}
      - key: {{ $tls.keyPasswordKey }}
        path: password
      {{- end }}
{{- end }}
{{- end -}}

{{- define "pathgate.secretMounts" -}}
{{- if include "pathgate.usesSasl" . }}
- name: sasl
  mountPath: /etc/pathgate/secrets/sasl
  readOnly: true
{{- end }}
{{- if .Values.kafka.tls.caSecret }}
- name: ca
  mountPath: /etc/pathgate/secrets/ca
  readOnly: true
{{- end }}
{{- if .Values.kafka.tls.certSecret }}
- name: tls
  mountPath: /etc/pathgate/secrets/tls
  readOnly: true
{{- end }}
{{- end -}}

{{/* Names of the event topics, as JSON: the defaults of the settings unless config has others. */}}
{{- define "pathgate.eventTopics" -}}
{{- $config := .Values.config -}}
{{- $prefix := default "" (get $config "topic_prefix") -}}
{{- $topics := list -}}
{{- if get $config "topic_events" -}}
{{- $topics = append $topics (get $config "topic_events") -}}
{{- else -}}
{{- $defaults := dict "topic_tool_called" "agent.tool-called" "topic_eval_started" "eval.started" "topic_eval_scored" "eval.scored" "topic_eval_completed" "eval.completed" "topic_run_terminal" "run.terminal" -}}
{{- range $name := keys $defaults | sortAlpha -}}
{{- $topics = append $topics (default (get $defaults $name) (get $config $name)) -}}
{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- range uniq $topics -}}
{{- $names = append $names (print $prefix .) -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}
