{{/*
principal.address, checked here for a better message than a regular expression in the schema would give.
*/}}
{{- define "addon.address" -}}
{{- $address := .Values.principal.address -}}
{{- $wanted := "Say host or host:port, such as agents.example.com:443, or an IPv6 address in brackets; leave it empty to have the Service's address found." -}}
{{- $because := "" -}}
{{- if regexMatch "^(([A-Za-z0-9.-]+|\\[[0-9A-Fa-f:]+\\])(:[0-9]{1,5})?)?$" $address -}}
{{- else if contains "://" $address -}}
{{- $because = "has a scheme; agents always use TLS" -}}
{{- else if regexMatch "\\s" $address -}}
{{- $because = "has a blank in it" -}}
{{- else if contains "/" $address -}}
{{- $because = "has a path, which agents would not ask for" -}}
{{- else if regexMatch "^[0-9A-Fa-f.]*:[0-9A-Fa-f.:]*:" $address -}}
{{- $because = "is an IPv6 address without brackets" -}}
{{- else -}}
{{- $because = "is no host and no host:port" -}}
{{- end -}}
{{- if $because -}}
{{- fail (printf "\n\nprincipal.address is %q, which %s. %s\n" $address $because $wanted) -}}
{{- end -}}
{{- $address -}}
{{- end }}
