{{/* The names are fixed: the program depends on them, and a hub has one instance of this add-on. */}}
{{- define "addon.name" -}}argocd-agent-addon{{- end }}
{{- define "addon.manager" -}}argocd-agent-addon-manager{{- end }}
{{- define "addon.uninstall" -}}argocd-agent-addon-uninstall{{- end }}

{{/* The selector of the manager's Pods; must not change, since a Deployment's selector is immutable. */}}
{{- define "addon.selector" -}}
app.kubernetes.io/name: {{ include "addon.manager" . }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "addon.common" -}}
app.kubernetes.io/part-of: argocd-agent
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels of every object of the manager. */}}
{{- define "addon.labels" -}}
{{ include "addon.selector" . }}
{{ include "addon.common" . }}
{{- end }}

{{/* include "addon.image" (list . .Values.images.manager) */}}
{{- define "addon.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $name := printf "%s/%s" (trimSuffix "/" $root.Values.images.registry) $image.repository -}}
{{- if $image.digest -}}
{{ $name }}@{{ $image.digest }}
{{- else -}}
{{ $name }}:{{ $image.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The security contexts of all Pods and containers: no privileges. */}}
{{- define "addon.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end }}
{{- define "addon.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end }}

{{/* The Secrets with the password of Argo CD's redis, as a list. */}}
{{- define "addon.redisSecrets" -}}
{{- with (.Values.argocd.redis | default dict).secret -}}
- {{ . }}
{{- else -}}
- argocd-redis
- argocd-redis-initial-password
- openshift-gitops-redis-initial-password
{{- end -}}
{{- end }}

{{/* The label app.kubernetes.io/name of the Pods of Argo CD's redis to which a NetworkPolicy restricts the access, as a JSON list;
empty if the chart's own is not needed. */}}
{{- define "addon.fencedRedis" -}}
{{- $names := list -}}
{{- if ne .Values.redisProxy.networkPolicy "never" -}}
{{- range (lookup "networking.k8s.io/v1" "NetworkPolicy" .Values.argocd.namespace "").items -}}
{{- $selected := dig "matchLabels" "app.kubernetes.io/name" "" .spec.podSelector -}}
{{- if eq .metadata.name "argocd-agent-redis" -}}
{{- else if empty .spec.podSelector -}}
{{- $names = append $names "argocd-redis" -}}
{{- else if or (hasSuffix "-redis" $selected) (hasSuffix "-redis-ha-haproxy" $selected) -}}
{{- $names = append $names $selected -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.redisProxy.networkPolicy "always") (empty $names) -}}
{{- $names = append $names "argocd-redis" -}}
{{- end -}}
{{- end -}}
{{- $names | uniq | sortAlpha | toJson -}}
{{- end }}

{{/* Labels of the objects that exist while `helm uninstall` runs. */}}
{{- define "addon.hookLabels" -}}
app.kubernetes.io/name: {{ include "addon.uninstall" . }}
{{ include "addon.common" . }}
{{- end }}

{{/* Labels of the Pod of `helm test`. */}}
{{- define "addon.testLabels" -}}
app.kubernetes.io/name: argocd-agent-addon-test
{{ include "addon.common" . }}
{{- end }}

{{/* include "addon.hook" (dict "hook" "pre-delete" "weight" "-10"): with this weight before the Jobs, so permissions are created before
the Job that uses them, and deleted after it, whether it succeeded or failed. */}}
{{- define "addon.hook" -}}
helm.sh/hook: {{ .hook }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* The same for objects of cluster scope. Argo CD, which renders without a cluster, gets them as ordinary objects: Argo CD 3.3 creates
such a hook again and again, and fails because it exists. Without the ServiceAccount the binding grants nothing. */}}
{{- define "addon.clusterHook" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
annotations:
  {{- include "addon.hook" . | nindent 2 }}
{{- end -}}
{{- end }}

{{/* The settings that Pods of hooks share with the manager's. */}}
{{- define "addon.hookPod" -}}
{{- with .Values.images.pullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{ end -}}
{{- with .Values.nodeSelector -}}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with .Values.tolerations -}}
tolerations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
securityContext:
  {{- include "addon.podSecurity" . | nindent 2 }}
{{- end }}

{{/* The resources of a container of the hub program: empty memory is filled in for the size of the fleet, which is none
for hooks. Memory that is left out stays out, and a limit that is set is no smaller than the request. */}}
{{- define "addon.resources" -}}
{{- $fleet := .fleet | default dict -}}
{{- $kib := add (mul $fleet.clusters 160) (mul $fleet.applications 20) -}}
{{- $request := add 64 (div $kib 1024) -}}
{{- $limit := max 2048 (add 1024 (mul 2 $request)) -}}
{{- $resources := deepCopy (.resources | default dict) -}}
{{- $requests := $resources.requests | default dict -}}
{{- $limits := $resources.limits | default dict -}}
{{- if and (hasKey $requests "memory") (not $requests.memory) -}}
{{- $_ := set $requests "memory" (ternary "64Mi" (printf "%dMi" $request) (not (not $limits.memory))) -}}
{{- end -}}
{{- if and (hasKey $limits "memory") (not $limits.memory) -}}
{{- $_ := set $limits "memory" (printf "%dMi" $limit) -}}
{{- end -}}
{{- toYaml $resources }}
{{- end }}
