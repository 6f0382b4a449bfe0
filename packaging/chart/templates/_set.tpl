{{/* The address of a member: of the set .name, number .member. */}}
{{- define "mayfly.member" -}}
{{ .name }}-{{ .member }}.{{ .name }}.$(NAMESPACE).svc:27017
{{- end }}

{{/* The addresses of all members of the set .name, with commas between. */}}
{{- define "mayfly.members" -}}
{{- range $i := until (int .root.Values.members) }}{{ if $i }},{{ end }}{{ include "mayfly.member" (dict "name" $.name "member" $i) }}{{ end }}
{{- end }}

{{/* An error if there is a set .name, which these values do not have: Helm would delete it with what it
serves. */}}
{{- define "mayfly.keep" -}}
{{- if lookup "apps/v1" "StatefulSet" .root.Release.Namespace .name }}
{{- fail (printf "these values would delete the replica set %s, whose documents nobody has moved away: see docs/operate/install.md" .name) }}
{{- end }}
{{- end }}

{{/* A replica set: .name, .role (an option of mayfly serve, or ""), .root (the chart's values). */}}
{{- define "mayfly.set" -}}
{{- $labels := printf "{ app.kubernetes.io/name: mayfly, app.kubernetes.io/component: %s }" .name }}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  labels: {{ $labels }}
spec:
  clusterIP: None # each member has a name of its own
  publishNotReadyAddresses: true # members meet before they are ready
  selector: {{ $labels }}
  ports:
    - { name: mongodb, port: 27017, targetPort: mongodb }
    - { name: admin, port: 9216, targetPort: admin }
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  labels: {{ $labels }}
spec:
  maxUnavailable: 1
  selector: { matchLabels: {{ $labels }} }
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .name }}
  labels: {{ $labels }}
spec:
  serviceName: {{ .name }}
  replicas: {{ .root.Values.members }}
  podManagementPolicy: Parallel
  minReadySeconds: 10 # a member with a new volume is found by its set meanwhile
  selector: { matchLabels: {{ $labels }} }
  template:
    metadata:
      labels: {{ $labels }}
    spec:
      {{- include "mayfly.pod" .root | nindent 6 }}
      terminationGracePeriodSeconds: 180 # as the service's TimeoutStopSec
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: { matchLabels: {{ $labels }} }
      containers:
        - name: mayfly
          {{- include "mayfly.image" .root | nindent 10 }}
          args:
            - serve
            {{- with .role }}
            - {{ . }}
            {{- end }}
            - --dbpath=/data/db
            - --replSet={{ .name }}
            - --advertise=$(MEMBER).{{ .name }}.$(NAMESPACE).svc:27017
            {{- include "mayfly.listen" (dict "root" .root "args" .root.Values.args) | nindent 12 }}
          env:
            - name: MEMBER
              valueFrom: { fieldRef: { fieldPath: metadata.name } }
            {{- include "mayfly.namespace" . | nindent 12 }}
          {{- include "mayfly.ports" . | nindent 10 }}
          resources: {{- toYaml .root.Values.resources | nindent 12 }}
          volumeMounts:
            - { name: data, mountPath: /data } # with lost+found beside db
            {{- include "mayfly.mounts" .root | nindent 12 }}
      volumes:
        {{- include "mayfly.volumes" .root | nindent 8 }}
  volumeClaimTemplates:
    - metadata: { name: data }
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .root.Values.storage.class }}
        storageClassName: {{ . }}
        {{- end }}
        resources: { requests: { storage: {{ .root.Values.storage.size }} } }
---
{{- $members := list }}
{{- range $i := until (int .root.Values.members) }}
{{- $members = append $members (dict "_id" $i "host" (include "mayfly.member" (dict "name" $.name "member" $i))) }}
{{- end }}
{{/* 23: the set is initiated already. */}}
{{ include "mayfly.job" (dict "root" .root "name" (printf "%s-initiate" .name) "weight" 0 "accept" 23
  "uri" (printf "mongodb://%s/?directConnection=true" (include "mayfly.member" (dict "name" .name "member" 0)))
  "command" (dict "replSetInitiate" (dict "_id" .name "members" $members))) }}
{{- end }}
