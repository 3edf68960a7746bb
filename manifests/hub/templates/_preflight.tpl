{{/*
Requirements that are checked before anything is applied. `helm template` has no cluster and checks nothing.
Another add-on, argocd-pull-integration, uses the same names; neither can be installed over the other.
*/}}
{{- define "addon.preflight" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- if not (.Capabilities.APIVersions.Has "addon.open-cluster-management.io/v1alpha1/ClusterManagementAddOn") -}}
{{- fail "\n\nThis cluster is no Open Cluster Management hub: it does not serve addon.open-cluster-management.io. Install OCM 1.2 or newer first, for example with `clusteradm init`, or choose another kubeconfig.\n" -}}
{{- end -}}
{{- if not (.Capabilities.APIVersions.Has "argoproj.io/v1alpha1/Application") -}}
{{- fail "\n\nThis cluster does not serve Applications of argoproj.io. Install Argo CD, or at least its three CRDs, on the hub first.\n" -}}
{{- end -}}
{{- if not (lookup "v1" "Namespace" "" .Values.argocd.namespace) -}}
{{- fail (printf "\n\nThe hub has no namespace %q. Install Argo CD on the hub first, or set argocd.namespace to where it is.\n" .Values.argocd.namespace) -}}
{{- end -}}
{{- $offer := lookup "addon.open-cluster-management.io/v1alpha1" "ClusterManagementAddOn" "" (include "addon.name" .) -}}
{{- if eq "true" (include "addon.isByTemplate" $offer) -}}
{{- fail (include "addon.migration" .) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Whether a ClusterManagementAddOn supports AddOnTemplates, which ours never does. */}}
{{- define "addon.isByTemplate" -}}
{{- $found := false -}}
{{- range (((. | default dict).spec | default dict).supportedConfigs | default list) -}}
{{- if eq .resource "addontemplates" -}}{{- $found = true -}}{{- end -}}
{{- end -}}
{{- $found -}}
{{- end }}

{{- define "addon.migration" }}

The ClusterManagementAddOn {{ include "addon.name" . }} on this hub offers AddOnTemplates, as that of argocd-pull-integration
does. Both add-ons have the same names, so only one of them can be on a hub. Nothing was changed.

To change over:
  1. Remove the other one. With its ClusterManagementAddOn OCM removes its agents from the clusters; find out in its
     documentation what is deleted with them, and keep a copy of your Applications and AppProjects.
       helm uninstall RELEASE-OF-THE-OTHER -n NAMESPACE-OF-THE-OTHER
       kubectl delete clustermanagementaddons {{ include "addon.name" . }} --ignore-not-found
  2. Wait until no cluster has it any more: this command then finds nothing.
       kubectl get managedclusteraddons -A --field-selector metadata.name={{ include "addon.name" . }}
  3. Install this chart again, and opt the clusters in. Applications and AppProjects that are there are adopted.
{{ end }}
