// Not built: only the definitions of its kinds are wanted, ServiceMonitor and the like.
module lab.local/tools/prometheus-operator

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
