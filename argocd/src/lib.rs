//! Argo CD objects as opaque JSON, and the pure rules over them.
