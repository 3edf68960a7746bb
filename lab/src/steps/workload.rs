//! The workload of the tests' Applications: a greeting in a `ConfigMap` and a Deployment that shows it.

/// The image of the Deployment; the lab maps it to a program that waits.
pub const IMAGE: &str = "lab.local/greeter:1";
/// Folder of the repository.
pub const PATH: &str = "greeter";
/// The Deployment and the `ConfigMap` have one name.
pub const NAME: &str = "greeter";

/// The files of one revision of the repository: path and content.
pub fn files(greeting: &str) -> Vec<(String, String)> {
    vec![
        (format!("{PATH}/configmap.yaml"), config_map(greeting)),
        (format!("{PATH}/deployment.yaml"), deployment()),
    ]
}

fn config_map(greeting: &str) -> String {
    format!(
        "apiVersion: v1
kind: ConfigMap
metadata:
  name: {NAME}
data:
  greeting: {greeting}
"
    )
}

fn deployment() -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: {NAME}
spec:
  replicas: 1
  selector:
    matchLabels:
      app: {NAME}
  template:
    metadata:
      labels:
        app: {NAME}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: greeter
          image: {IMAGE}
"
    )
}
