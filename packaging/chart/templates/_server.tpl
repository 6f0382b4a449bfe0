{{/* Parts of a set and of a router. The pods meet the policy "restricted" of Kubernetes. */}}

{{- define "mayfly.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- define "mayfly.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false # their MAYFLY_… would be read as options
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "mayfly.namespace" -}}
- name: NAMESPACE
  valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
{{- end }}

{{/* What all servers listen on, and how it is asked whether they serve. */}}
{{- define "mayfly.ports" -}}
ports:
  - { name: mongodb, containerPort: 27017 }
  - { name: admin, containerPort: 9216 }
startupProbe:
  httpGet: { path: /healthz, port: admin }
  periodSeconds: 2
  failureThreshold: 900 # half an hour: after a crash the log is read first
readinessProbe: # false while a member copies, so that no other one is stopped
  httpGet: { path: /readyz, port: admin }
  periodSeconds: 5
livenessProbe:
  tcpSocket: { port: mongodb }
  periodSeconds: 10
  failureThreshold: 6
{{- end }}

{{/* Options of servers: .root (the chart's values), .args (more of them). */}}
{{- define "mayfly.listen" -}}
- --bind_ip_all
- --nounixsocket
- --adminPort=9216
- --adminBindIp=0.0.0.0
{{- if .root.Values.keySecret }}
- --keyFile=/key/key
{{- end }}
{{- range .args }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* Directories: temporary files, and the key if there is one. */}}
{{- define "mayfly.mounts" -}}
- { name: tmp, mountPath: /tmp }
{{- if .Values.keySecret }}
- { name: key, mountPath: /key, readOnly: true }
{{- end }}
{{- end }}

{{- define "mayfly.volumes" -}}
- name: tmp
  emptyDir: {}
{{- if .Values.keySecret }}
- name: key
  secret: { secretName: {{ .Values.keySecret | quote }}, defaultMode: 0400 }
{{- end }}
{{- end }}

{{/* A command that is run on a server behind each installation and upgrade: .name, .uri, .accept (a
code that is no error), .command, .root (the chart's values). */}}
{{- define "mayfly.job" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  labels: { app.kubernetes.io/name: mayfly, app.kubernetes.io/component: {{ .name }} }
  annotations:
    helm.sh/hook: post-install,post-upgrade
    helm.sh/hook-weight: {{ .weight | quote }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 20
  ttlSecondsAfterFinished: 600 # who has no Helm could not apply another one over it
  template:
    metadata:
      labels: { app.kubernetes.io/name: mayfly, app.kubernetes.io/component: {{ .name }} }
    spec:
      {{- include "mayfly.pod" .root | nindent 6 }}
      restartPolicy: OnFailure
      containers:
        - name: run
          {{- include "mayfly.image" .root | nindent 10 }}
          args:
            - run
            - --wait=5m
            {{- with get . "accept" }}
            - --accept={{ . }}
            {{- end }}
            {{- if .root.Values.keySecret }}
            - --keyFile=/key/key
            {{- end }}
            - --uri={{ .uri }}
            - {{ toJson .command | quote }}
          env:
            {{- include "mayfly.namespace" . | nindent 12 }}
          volumeMounts:
            {{- include "mayfly.mounts" .root | nindent 12 }}
      volumes:
        {{- include "mayfly.volumes" .root | nindent 8 }}
{{- end }}
