//! The lab's stand-in for the parts of Open Cluster Management that the stories touch.
