//! Open Cluster Management API types, and with the feature sdk what any add-on manager needs.
