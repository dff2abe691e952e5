{{- define "phasemeter.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 53 | trimSuffix "-" }}
{{- end }}

{{- define "phasemeter.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" }}
{{- else if contains (include "phasemeter.name" .) .Release.Name }}
{{- .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "phasemeter.name" .) | trunc 53 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "phasemeter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "phasemeter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "phasemeter.labels" -}}
{{ include "phasemeter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "phasemeter.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Whether the agent needs the API server. */}}
{{- define "phasemeter.agent.usesApi" -}}
{{- with .Values -}}
{{- if or .agent.claims .agent.pods .agent.labels .price.fromNodeLabels .price.byNodeLabel .agent.extraRules }}true{{ end }}
{{- end }}
{{- end }}

{{/* Arguments of agent and gateway. */}}
{{- define "phasemeter.args" -}}
{{- with .Values.price }}
{{- with .perGpuHour }}
- --price={{ . }}
{{- end }}
{{- with .provider }}
- --provider={{ . }}
{{- end }}
{{- with .region }}
- --region={{ . }}
{{- end }}
{{- with .instanceType }}
- --instance-type={{ . }}
{{- end }}
{{- with .plan }}
- --plan={{ . }}
{{- end }}
{{- if .book.configMap }}
- --prices=/etc/phasemeter/prices/{{ .book.key }}
{{- end }}
{{- end }}
{{- with .Values.policies }}
{{- if not .default }}
- --no-default-policies
{{- end }}
{{- if or .configMap .image .secret }}
- --policies=/etc/phasemeter/policies
{{- end }}
{{- range .keys.names }}
- --policy-key=/etc/phasemeter/policy-keys/{{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Environment of agent and gateway. */}}
{{- define "phasemeter.env" -}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- $attributes := dict }}
{{- with .Values.clusterName }}
{{- $_ := set $attributes "k8s.cluster.name" . }}
{{- end }}
{{- /* The GPUs that a gateway meters are not those of its node. */}}
{{- $pairs := list }}
{{- if .isAgent }}
{{- $pairs = append $pairs "k8s.node.name=$(NODE_NAME)" }}
{{- end }}
{{- range $key, $value := merge $attributes .Values.resourceAttributes }}
{{- $pairs = append $pairs (printf "%s=%s" $key ($value | toString | urlquery | replace "+" "%20")) }}
{{- end }}
{{- if $pairs }}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: {{ join "," $pairs | quote }}
{{- end }}
{{- with .Values.otlp }}
{{- if .endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .endpoint | quote }}
- name: OTEL_EXPORTER_OTLP_PROTOCOL
  value: {{ .protocol | quote }}
- name: OTEL_METRIC_EXPORT_INTERVAL
  value: {{ mul .intervalSeconds 1000 | quote }}
{{- if .headers.secret }}
- name: PHASEMETER_OTLP_HEADERS_FILE
  value: /etc/phasemeter/headers/{{ .headers.key }}
{{- end }}
{{- if .certificate.configMap }}
- name: OTEL_EXPORTER_OTLP_CERTIFICATE
  value: /etc/phasemeter/otlp/{{ .certificate.key }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Volume mounts of agent and gateway. */}}
{{- define "phasemeter.volumeMounts" -}}
{{- if and .Values.otlp.endpoint .Values.otlp.headers.secret }}
- {name: headers, mountPath: /etc/phasemeter/headers, readOnly: true}
{{- end }}
{{- if and .Values.otlp.endpoint .Values.otlp.certificate.configMap }}
- {name: otlp, mountPath: /etc/phasemeter/otlp, readOnly: true}
{{- end }}
{{- if .Values.price.book.configMap }}
- {name: prices, mountPath: /etc/phasemeter/prices, readOnly: true}
{{- end }}
{{- if or .Values.policies.configMap .Values.policies.image .Values.policies.secret }}
- {name: policies, mountPath: /etc/phasemeter/policies, readOnly: true}
{{- end }}
{{- if .Values.policies.keys.configMap }}
- {name: policy-keys, mountPath: /etc/phasemeter/policy-keys, readOnly: true}
{{- end }}
{{- end }}

{{- define "phasemeter.volumes" -}}
{{- if and .Values.otlp.endpoint .Values.otlp.headers.secret }}
- name: headers
  secret: {secretName: {{ .Values.otlp.headers.secret }}}
{{- end }}
{{- if and .Values.otlp.endpoint .Values.otlp.certificate.configMap }}
- name: otlp
  configMap: {name: {{ .Values.otlp.certificate.configMap }}}
{{- end }}
{{- with .Values.price.book.configMap }}
- name: prices
  configMap: {name: {{ . }}}
{{- end }}
{{- if .Values.policies.configMap }}
- name: policies
  configMap: {name: {{ .Values.policies.configMap }}}
{{- else if .Values.policies.image }}
- name: policies
  image: {reference: {{ .Values.policies.image | quote }}, pullPolicy: {{ .Values.image.pullPolicy }}}
{{- else if .Values.policies.secret }}
- name: policies
  secret: {secretName: {{ .Values.policies.secret }}}
{{- end }}
{{- with .Values.policies.keys.configMap }}
- name: policy-keys
  configMap: {name: {{ . }}}
{{- end }}
{{- end }}

{{/* Where pods run. Argument: the values of agent or gateway. */}}
{{- define "phasemeter.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}
