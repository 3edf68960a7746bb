{{/* Labels of the objects of argocd.configure. */}}
{{- define "addon.configureLabels" -}}
app.kubernetes.io/name: argocd-agent-addon-configure
{{ include "addon.common" . }}
{{- end }}

{{/* argocd-server by the labels by which `hub setup` finds it, as JSON: its name, its ServiceAccount, the labels that select its Pods,
and the ArgoCD resource if an operator deploys it. Where there is no cluster to look at, as in Argo CD's own manifests. */}}
{{- define "addon.argocdServer" -}}
{{- $server := dict "name" "argocd-server" "account" "argocd-server" "instance" "" "selector" (dict "app.kubernetes.io/name" "argocd-server") -}}
{{- range (lookup "apps/v1" "Deployment" .Values.argocd.namespace "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- if and (eq (get $labels "app.kubernetes.io/component") "server") (eq (get $labels "app.kubernetes.io/part-of") "argocd") -}}
{{- $_ := set $server "name" .metadata.name -}}
{{- $_ := set $server "account" (.spec.template.spec.serviceAccountName | default "default") -}}
{{- with (.spec.selector).matchLabels -}}
{{- $_ := set $server "selector" . -}}
{{- end -}}
{{- range .metadata.ownerReferences -}}
{{- if eq .kind "ArgoCD" -}}
{{- $_ := set $server "instance" .name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $server -}}
{{- end }}

{{/* include "addon.configureRights" (dict "root" . "hook" "pre-delete")
Permissions of `argocd-agentctl hub setup` and its undo, which exist only while their Jobs run. The Job creates no role and
grants nothing: the permission that argocd-server gets is an object of the chart. */}}
{{- define "addon.configureRights" -}}
{{- $root := .root -}}
{{- $server := include "addon.argocdServer" $root | fromJson -}}
{{- $hook := dict "hook" .hook "weight" "-10" -}}
{{- /* The pages in the UI are on, or this upgrade turns them off. */ -}}
{{- $hasUi := or ($root.Values.ui).enabled (lookup "v1" "ConfigMap" $root.Values.argocd.namespace "argocd-agent-addon-ui-extension") -}}
{{- $changes := ternary (list "get" "patch") (list "get") (not (not $hasUi)) | toJson -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: argocd-agent-addon-configure
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "addon.configureLabels" $root | nindent 4 }}
  annotations:
    {{- include "addon.hook" $hook | nindent 4 }}
---
# Reads what no single namespace has, before anything is changed.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: argocd-agent-addon-configure
  labels:
    {{- include "addon.configureLabels" $root | nindent 4 }}
  {{- with include "addon.clusterHook" $hook }}
  {{- . | nindent 2 }}
  {{- end }}
rules:
  # argocd-server, and application controllers anywhere on the hub that would take the Applications of clusters.
  - apiGroups: ["apps"]
    resources: ["deployments", "statefulsets"]
    verbs: ["list"]
  # The clusters, whose namespaces argocd-server shows.
  - apiGroups: ["addon.open-cluster-management.io"]
    resources: ["managedclusteraddons"]
    resourceNames: ["argocd-agent-addon"]
    verbs: ["list"]
  # Whether argocd-server may change Applications in them.
  - apiGroups: ["authorization.k8s.io"]
    resources: ["subjectaccessreviews"]
    verbs: ["create"]
  # The role that a user created with `argocd-agentctl hub setup` earlier; undo deletes it.
  - apiGroups: ["rbac.authorization.k8s.io"]
    resources: ["clusterroles", "clusterrolebindings"]
    resourceNames: ["argocd-agent-addon-argocd-server"]
    verbs: ["get", "delete"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: argocd-agent-addon-configure
  labels:
    {{- include "addon.configureLabels" $root | nindent 4 }}
  {{- with include "addon.clusterHook" $hook }}
  {{- . | nindent 2 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: argocd-agent-addon-configure
subjects:
  - kind: ServiceAccount
    name: argocd-agent-addon-configure
    namespace: {{ $root.Release.Namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: argocd-agent-addon-configure
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "addon.configureLabels" $root | nindent 4 }}
  annotations:
    {{- include "addon.hook" $hook | nindent 4 }}
rules:
  # The namespace of Argo CD, and the settings of the redis proxy and of the pages in the UI.
  - apiGroups: ["apps"]
    resources: ["deployments"]
    resourceNames: ["argocd-agent-addon-manager"]
    verbs: ["get"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: argocd-agent-addon-configure
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "addon.configureLabels" $root | nindent 4 }}
  annotations:
    {{- include "addon.hook" $hook | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: argocd-agent-addon-configure
subjects:
  - kind: ServiceAccount
    name: argocd-agent-addon-configure
    namespace: {{ $root.Release.Namespace }}
---
# The only writes: three ConfigMaps and one Deployment, or one ArgoCD resource of the operator and one ConfigMap.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: argocd-agent-addon-configure-argocd
  namespace: {{ $root.Values.argocd.namespace }}
  labels:
    {{- include "addon.configureLabels" $root | nindent 4 }}
  annotations:
    {{- include "addon.hook" $hook | nindent 4 }}
rules:
  {{- if $server.instance }}
  # The settings from which the operator deploys argocd-server. Its ConfigMaps are only read: the operator owns them.
  - apiGroups: ["argoproj.io"]
    resources: ["argocds"]
    resourceNames: [{{ $server.instance | quote }}]
    verbs: ["get", "patch"]
  - apiGroups: [""]
    resources: ["configmaps"]
    resourceNames: ["argocd-cmd-params-cm", "argocd-cm"]
    verbs: ["get"]
  {{- else }}
  # The settings of argocd-server, the extensions that it forwards to, its restart, and the mount of the pages.
  - apiGroups: [""]
    resources: ["configmaps"]
    resourceNames: ["argocd-cmd-params-cm"]
    verbs: ["get", "patch"]
  - apiGroups: [""]
    resources: ["configmaps"]
    resourceNames: ["argocd-cm"]
    verbs: {{ $changes }}
  - apiGroups: ["apps"]
    resources: ["deployments"]
    resourceNames: [{{ $server.name | quote }}]
    verbs: ["patch"]
  {{- end }}
  # Which roles of Argo CD may call the extensions. The operator keeps keys of others there.
  - apiGroups: [""]
    resources: ["configmaps"]
    resourceNames: ["argocd-rbac-cm"]
    verbs: {{ $changes }}
  # Whether redis has a password that the hub program can read, and whether the token of the pages is there. Kubernetes has no
  # verb for that alone.
  - apiGroups: [""]
    resources: ["secrets"]
    resourceNames:
      {{- include "addon.redisSecrets" $root | nindent 6 }}
      - argocd-agent-addon-ui
    verbs: ["list"]
  # Which redis the hub program forwards to, and whether it may reach it.
  - apiGroups: [""]
    resources: ["services"]
    verbs: ["list"]
  - apiGroups: ["networking.k8s.io"]
    resources: ["networkpolicies"]
    verbs: ["list"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: argocd-agent-addon-configure-argocd
  namespace: {{ $root.Values.argocd.namespace }}
  labels:
    {{- include "addon.configureLabels" $root | nindent 4 }}
  annotations:
    {{- include "addon.hook" $hook | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: argocd-agent-addon-configure-argocd
subjects:
  - kind: ServiceAccount
    name: argocd-agent-addon-configure
    namespace: {{ $root.Release.Namespace }}
{{- end }}

{{/* include "addon.configureJob" (dict "root" . "name" "NAME" "hook" "pre-delete" "undo" true) */}}
{{- define "addon.configureJob" -}}
{{- $root := .root -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "addon.configureLabels" $root | nindent 4 }}
  annotations:
    # Before an uninstallation: after the Job that removes the add-on from the clusters. If that fails, nothing is undone.
    {{- include "addon.hook" (dict "hook" .hook "weight" "5") | nindent 4 }}
    # Helm prints its log: the changes, or the prerequisites that are missing.
    helm.sh/hook-output-log-policy: hook-succeeded,hook-failed
spec:
  # Argo CD may still be starting. The pauses between the attempts grow, to two and a half minutes in total.
  backoffLimit: 4
  ttlSecondsAfterFinished: 86400
  template:
    metadata:
      labels:
        {{- include "addon.configureLabels" $root | nindent 8 }}
    spec:
      serviceAccountName: argocd-agent-addon-configure
      restartPolicy: Never
      {{- include "addon.hookPod" $root | nindent 6 }}
      {{- if not .undo }}
      initContainers:
        # argocd-server restarts with the redis proxy as its redis, so that has to listen; and the leader makes the token of the pages.
        - name: ready
          image: {{ include "addon.image" (list $root $root.Values.images.manager) }}
          imagePullPolicy: {{ $root.Values.images.pullPolicy }}
          command: ["/usr/local/bin/addon-manager"]
          args:
            - ready
            - --address=argocd-agent-addon-manager.{{ $root.Release.Namespace }}.svc:8003
            - --timeout=4m
          terminationMessagePolicy: FallbackToLogsOnError
          resources:
            {{- include "addon.resources" (dict "resources" $root.Values.resources "fleet" dict) | nindent 12 }}
          securityContext:
            {{- include "addon.containerSecurity" $root | nindent 12 }}
      {{- end }}
      containers:
        - name: setup
          image: {{ include "addon.image" (list $root $root.Values.images.manager) }}
          imagePullPolicy: {{ $root.Values.images.pullPolicy }}
          command: ["/usr/local/bin/argocd-agentctl"]
          args:
            - hub
            - setup
            - --own-namespace={{ $root.Release.Namespace }}
            {{- if .undo }}
            - --undo
            {{- end }}
          terminationMessagePolicy: FallbackToLogsOnError
          resources:
            {{- include "addon.resources" (dict "resources" $root.Values.resources "fleet" dict) | nindent 12 }}
          securityContext:
            {{- include "addon.containerSecurity" $root | nindent 12 }}
{{- end }}
