{{- define "hearth.labels" -}}
app.kubernetes.io/name: hearth
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "hearth.selector" -}}
app.kubernetes.io/name: hearth
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The name of a pod in the cluster, which outlives its IP address and its disk. */ -}}
{{- define "hearth.domain" -}}
{{ .Release.Name }}-nodes.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "hearth.members" -}}
{{- $members := list }}
{{- range $number := until (int .Values.replicas) }}
{{- $members = append $members (printf "%d=%s-%d.%s:4282" (add1 $number) $.Release.Name $number (include "hearth.domain" $)) }}
{{- end }}
{{- join ", " $members }}
{{- end }}

{{- define "hearth.settings" -}}
node: {id: auto, data: /var/lib/hearth}
public:
  listen: 0.0.0.0:4280
  certificate: /etc/hearth/node.pem
  key: /etc/hearth/node.key
  drain_seconds: {{ .Values.drainSeconds }}
operator: {health_listen: "0.0.0.0:4283", key_file: /etc/hearth/operator.key}
peer:
  listen: 0.0.0.0:4282
  authority: /etc/hearth/ca.pem
  certificate: /etc/hearth/node.pem
  key: /etc/hearth/node.key
cluster: {members: {{ include "hearth.members" . | quote }}}
webhooks: {key: /etc/hearth/cluster.key}
log: {format: json}
{{- end }}
