{{- /* The pod of a worker, and of whatever a schedule starts beside it. Given: root, args, worker (whether it is one). */ -}}
{{- define "perago.pod" -}}
{{- $values := .root.Values -}}
automountServiceAccountToken: false
terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
{{- if not .worker }}
restartPolicy: Never
{{- end }}
{{- with $values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: { type: RuntimeDefault }
containers:
  - name: perago
    image: {{ include "perago.image" .root | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args: {{ toJson .args }}
    env:
      - { name: HOME, value: /scratch }
      - { name: TMPDIR, value: /scratch }
      - { name: PERAGO_WORKER__ROOT, value: /scratch/work }
      - { name: PERAGO_WORKER__CACHE, value: /scratch/cache }
      - { name: PERAGO_WORKER__TRACE, value: /scratch/trace }
      {{- range $name, $value := $values.environment }}
      - { name: {{ $name }}, value: {{ $value | toString | quote }} }
      {{- end }}
    envFrom:
      - secretRef: { name: {{ include "perago.secret" .root }} }
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: { drop: [ALL] }
    {{- if .worker }}
    startupProbe:
      exec: { command: [perago, doctor] }
      failureThreshold: {{ $values.startup.failureThreshold }}
      periodSeconds: {{ $values.startup.periodSeconds }}
      timeoutSeconds: 60
    {{- with $values.livenessProbe }}
    livenessProbe: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- end }}
    resources: {{- toYaml $values.resources | nindent 6 }}
    volumeMounts:
      - { name: project, mountPath: /project, readOnly: true }
      - { name: scratch, mountPath: /scratch }
volumes:
  - name: project
    configMap: { name: {{ include "perago.name" .root }} }
  - name: scratch
    emptyDir: { sizeLimit: {{ $values.scratch.sizeLimit }} }
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
