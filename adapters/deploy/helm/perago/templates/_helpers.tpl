{{- define "perago.name" -}}
{{- printf "%s-perago" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "perago.selector" -}}
app.kubernetes.io/name: perago
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "perago.labels" -}}
{{ include "perago.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "perago.secret" -}}
{{- .Values.secret.existing | default (include "perago.name" .) }}
{{- end }}

{{- define "perago.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion }}
{{- printf "%s%s%s" .Values.image.repository (ternary "@" ":" (hasPrefix "sha256:" $tag)) $tag }}
{{- end }}
