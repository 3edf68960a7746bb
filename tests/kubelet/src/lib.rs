//! The lab's process kubelet: pods as local processes in namespaces.
